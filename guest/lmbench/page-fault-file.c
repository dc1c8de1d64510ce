/* SPDX-License-Identifier: MIT */
/*
 * First load from a cached page of a file that is mapped privately. A read fault maps what it
 * finds around it, 16 pages, but not beyond the mapping: so in mappings of 2 MiB each sixteenth
 * page is touched, and in mappings of one page every one. All mappings are of the same part of the
 * file, which keeps neighbours from becoming one.
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "cached.h"
#include "ktax.h"

static char *next;
static uint64_t step;

static int op(void)
{
	(void)*(volatile char *)next;
	next += step;
	return 0;
}

static void run(const struct order *o, uint64_t warm_up, uint64_t a_fault, uint64_t a_map)
{
	const int fd = cached_file(a_map, a_map), flags = MAP_PRIVATE | MAP_FIXED;
	const uint64_t maps = ((warm_up + o->ops) * a_fault + a_map - 1) / a_map;
	char *first = pages(maps * a_map);

	for (uint64_t i = 0; i < maps; i++) {
		char *at = first + i * a_map * PAGE;
		if (mmap(at, a_map * PAGE, PROT_READ, flags, fd, 0) == MAP_FAILED)
			fail("mmap");
	}
	next = first;
	step = a_fault * PAGE;
	measure(o, warm_up, op, "touches");
	sig("faults", region_faults);
	/* Whether the neighbours came with it, and not only in the first window. */
	uint64_t before = faults();
	for (char *page = first; page < next; page += PAGE)
		(void)*(volatile char *)page;
	sig("later-faults", faults() - before);
}

static void page_fault_file_run(const struct order *o)
{
	run(o, 64, 16, 512);
}

static void page_fault_file_1_run(const struct order *o)
{
	run(o, 512, 1, 1);
}

WORKLOAD("page-fault-file", page_fault_file_run);
WORKLOAD("page-fault-file-1", page_fault_file_1_run);
