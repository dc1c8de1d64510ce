/* SPDX-License-Identifier: MIT */
/* Numbers that are the same everywhere: a C library's own differ between libraries. */
#ifndef KTAX_RANDOM_H
#define KTAX_RANDOM_H

#include <stdint.h>

/* The next one of splitmix64, below the limit. */
static inline uint32_t below(uint64_t *state, uint32_t limit)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	z ^= z >> 31;
	return (z >> 32) * limit >> 32;
}

#endif
