/* SPDX-License-Identifier: MIT */
#include "overhead.h"

#include <time.h>

void overhead(const struct order *o, int (*op)(void))
{
	struct timespec start, end;
	int failed = 0;

	if (in_guest)
		return;
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (uint64_t i = 0; i < o->ops; i++)
		failed |= op();
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (failed)
		fail("overhead");
	int64_t took = (end.tv_sec - start.tv_sec) * 1000000000ll + end.tv_nsec - start.tv_nsec;
	value("overhead-ns", took / o->ops);
}
