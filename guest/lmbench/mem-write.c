/* SPDX-License-Identifier: MIT */
/*
 * Store to every int of a buffer, in blocks of 512 bytes. Each int becomes one more than the first
 * of its KiB was, so that in the end it says how often it was written.
 */
#include <string.h>

#include "bandwidth.h"

static uint32_t *buffer;

static uint64_t write_all(uint64_t kib)
{
	volatile uint32_t *at = buffer; /* one by one: neither vectors nor memset() */

	for (uint64_t k = 0; k < kib; k++) {
		uint32_t times = *at + 1;
		UNROLLED for (int i = 0; i < KIB_INTS; i++)
			*at++ = times;
	}
	return kib;
}

static void mem_write_run(const struct order *o)
{
	const uint64_t kib = param(o, "mib", 8) * MIB_KIB;

	buffer = filled_kib(kib);
	memset(buffer, 0, kib * KIB);
	bandwidth(o, kib, kib, write_all, "kib");
	/* The warm-up wrote each once. */
	sig("written", sum_kib(buffer, kib) - kib * KIB_INTS);
}

WORKLOAD("mem-write", mem_write_run);
