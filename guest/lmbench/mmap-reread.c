/* SPDX-License-Identifier: MIT */
/* Add up a shared mapping of a file that is in memory; the warm-up takes the faults. */
#include <sys/mman.h>

#include "bandwidth.h"

static const uint32_t *map;

static uint64_t reread(uint64_t kib)
{
	return sum_kib(map, kib);
}

static void mmap_reread_run(const struct order *o)
{
	const uint64_t kib = param(o, "mib", 8) * MIB_KIB;

	map = mmap(NULL, kib * KIB, PROT_READ, MAP_SHARED, filled_file(kib), 0);
	if (map == MAP_FAILED)
		fail("mmap");
	bandwidth(o, kib, kib, reread, "sum");
}

WORKLOAD("mmap-reread", mmap_reread_run);
