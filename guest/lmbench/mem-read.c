/* SPDX-License-Identifier: MIT */
/* Load and add up every int of a buffer, in blocks of 512 bytes. */
#include "bandwidth.h"

static const uint32_t *buffer;

static uint64_t read_all(uint64_t kib)
{
	return sum_kib(buffer, kib);
}

static void mem_read_run(const struct order *o)
{
	const uint64_t kib = param(o, "mib", 8) * MIB_KIB;

	buffer = filled_kib(kib);
	bandwidth(o, kib, kib, read_all, "sum");
}

WORKLOAD("mem-read", mem_read_run);
