/* SPDX-License-Identifier: MIT */
/* Map `pages` anonymous pages, store to each of them, unmap them. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static uint64_t size;

static int op(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *map = (char *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (map == MAP_FAILED)
		return 1;
	for (uint64_t at = 0; at < size; at += PAGE)
		*(volatile char *)(map + at) = 1;
	return syscall(SYS_munmap, map, size) != 0;
}

static void mmap_touch_munmap_run(const struct order *o)
{
	size = param(o, "pages", 16) * PAGE;
	measure(o, 50, op, "maps");
	/* A kernel that maps larger folios here takes fewer faults: that is different work. */
	sig("faults", region_faults);
}

WORKLOAD("mmap-touch-munmap", mmap_touch_munmap_run);
