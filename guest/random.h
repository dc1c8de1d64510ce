/* SPDX-License-Identifier: MIT */
/* Random numbers that do not depend on the C library. */
#ifndef KTAX_RANDOM_H
#define KTAX_RANDOM_H

#include <stdint.h>

static inline uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Returns the next number below the limit. */
static inline uint32_t below(uint64_t *state, uint32_t limit)
{
	return (splitmix64(state) >> 32) * limit >> 32;
}

#endif
