/* SPDX-License-Identifier: MIT */
/*
 * First store to each 4 KiB page of a mapping that is left to the kernel's own policy. The mapping
 * begins and ends on a 2 MiB boundary, so that huge pages fit, and how many faults that takes is
 * seen and not demanded.
 */
#include <sys/mman.h>

#include "ktax.h"

enum { HUGE = 2 << 20 };

static char *next;

static int op(void)
{
	*(volatile char *)next = 1;
	next += PAGE;
	return 0;
}

static void touch_run(const struct order *o)
{
	const uint64_t warm_up = HUGE / PAGE;
	size_t size = (warm_up + o->ops) * PAGE + HUGE;
	char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		fail("mmap");
	next = (char *)(((uintptr_t)map + HUGE - 1) & ~(HUGE - 1ul));
	measure(o, warm_up, op, "touches");
	value("faults", region_faults);
}

WORKLOAD("touch", touch_run);
