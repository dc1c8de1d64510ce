/* SPDX-License-Identifier: MIT */
/* Clocks. Under icount they only count instructions. */
#ifndef KTAX_NANOSECONDS_H
#define KTAX_NANOSECONDS_H

#include <stdint.h>
#include <time.h>

/* Returns 0 if there is no such clock. */
static inline uint64_t nanoseconds_of(clockid_t clock)
{
	struct timespec now = { 0 };

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static inline uint64_t nanoseconds(void)
{
	return nanoseconds_of(CLOCK_MONOTONIC);
}

#endif
