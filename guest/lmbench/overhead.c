/* SPDX-License-Identifier: MIT */
#include "overhead.h"

#include "nanoseconds.h"

void overhead(const struct order *o, int (*op)(void))
{
	int failed = 0;

	if (counted)
		return;
	uint64_t start = nanoseconds();
	for (uint64_t i = 0; i < o->ops; i++)
		failed |= op();
	uint64_t took = nanoseconds() - start;
	if (failed)
		fail("overhead");
	value("overhead-ns", took / o->ops);
}
