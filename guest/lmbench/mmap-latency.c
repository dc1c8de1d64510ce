/* SPDX-License-Identifier: MIT */
/*
 * Map a cached file of `mib` MiB for all to see, store a byte every 16 KiB to the first tenth of
 * it, unmap it.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cached.h"
#include "ktax.h"

enum { STRIDE = 16384 };

static uint64_t size, span;
static char *place;
static int fd;

static int op(void)
{
	char *map = (char *)syscall(SYS_mmap, place, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return 1;
	for (uint64_t at = 0; at < span; at += STRIDE)
		*(volatile char *)(map + at) = 1;
	return syscall(SYS_munmap, map, size) != 0;
}

static void mmap_latency_run(const struct order *o)
{
	size = param(o, "mib", 64) << 20;
	span = size / 10;
	fd = cached_file(size / PAGE, span / PAGE + 1);
	/* Always at the same place in the page tables. */
	place = pages(size / PAGE);
	munmap(place, size);
	measure(o, 2, op, "maps");
	uint64_t touches = o->ops * ((span + STRIDE - 1) / STRIDE);
	sig("faults", region_faults);
	sig("faults-too-few", touches > region_faults ? touches - region_faults : 0);
	sig("faults-too-many", touches < region_faults ? region_faults - touches : 0);
}

WORKLOAD("mmap-latency", mmap_latency_run);
