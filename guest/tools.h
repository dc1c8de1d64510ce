/* SPDX-License-Identifier: MIT */
/* Clocks, random numbers, a hash, threads and limits for workloads. */
#ifndef KTAX_TOOLS_H
#define KTAX_TOOLS_H

#include <pthread.h>
#include <time.h>

#include "ktax.h"

/* Time of a clock, 0 if there is no such clock. Under icount, clocks only count instructions. */
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

/* Random numbers that do not depend on the C library. */
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

static const uint64_t HASH_START = 0xcbf29ce484222325;

/* FNV-1a: a few instructions for each byte. */
static inline uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
	for (const unsigned char *byte = data; size--; byte++)
		hash = (hash ^ *byte) * 0x100000001b3;
	return hash;
}

/* Threads with small stacks, CPU pinning and resource limits, for workloads with many workers. */
enum { TEAM_MAX = 512 };

/* Fails where there can be no more threads. */
pthread_t team_thread(void *(*run)(void *), void *argument);

void team_start(unsigned n, void (*work)(unsigned member)); /* members 0 to n - 1 */
void team_join(void);                                       /* waits for the end of all */

unsigned team_cpus(void);       /* how many CPUs this process may run on */
void team_pin(unsigned member); /* pins the caller to one of them, members in turn */

/* Raises a soft limit to its hard limit; fails if it cannot reach `wanted`. */
void raise_limit(int resource, uint64_t wanted, const char *name);

#endif
