/* SPDX-License-Identifier: MIT */
/*
 * First store to each 2 MiB of anonymous memory that asks for huge pages. Where none comes there
 * is a fault all the same, of a small page: the pages that are resident afterwards tell.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ktax.h"

enum { HUGE = 512 }; /* pages */

static char *next;

static int op(void)
{
	*(volatile char *)next = 1;
	next += HUGE * PAGE;
	return 0;
}

static uint64_t resident(char *map, uint64_t n)
{
	unsigned char *vector = (unsigned char *)pages(n / PAGE + 1);
	uint64_t found = 0;

	if (mincore(map, n * PAGE, vector))
		fail("mincore");
	for (uint64_t i = 0; i < n; i++)
		found += vector[i] & 1;
	return found;
}

/* A kernel with less than 512 MiB has them off until it is told. Who else's choice it is stays. */
static void allow(void)
{
	int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_WRONLY);

	if (fd < 0 || write(fd, "madvise", 7) != 7 || close(fd))
		fail("transparent_hugepage");
}

static void page_fault_thp_run(const struct order *o)
{
	const uint64_t warm_up = 2, n = HUGE * (warm_up + o->ops);

	if (in_guest)
		allow();
	next = pages(n);
	if (madvise(next, n * PAGE, MADV_HUGEPAGE))
		fail("MADV_HUGEPAGE");
	measure(o, warm_up, op, "touches");
	uint64_t found = resident(next - HUGE * PAGE * o->ops, HUGE * o->ops);
	errno = 0;
	if (found != HUGE * o->ops)
		fail("no huge pages, see /sys/kernel/mm/transparent_hugepage/enabled");
	sig("faults", region_faults);
	sig("resident", found);
}

WORKLOAD("page-fault-thp", page_fault_thp_run);
