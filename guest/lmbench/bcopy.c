/* SPDX-License-Identifier: MIT */
/*
 * Copy one buffer to another, which begins 128 bytes behind a page boundary: with the C library's
 * memcpy(), and with a loop of our own over ints in blocks of 512 bytes. The last int is another
 * one in each pass, and has to arrive.
 */
#include <string.h>

#include "bandwidth.h"

static uint32_t *from, *to, passes;
static void (*copy)(uint32_t *to, const uint32_t *from, uint64_t kib);

static void copy_libc(uint32_t *to, const uint32_t *from, uint64_t kib)
{
	memcpy(to, from, kib * KIB);
}

static void copy_hand(uint32_t *to, const uint32_t *from, uint64_t kib)
{
	volatile uint32_t *at = to; /* one by one: neither vectors nor memcpy() */

	for (; kib; kib--)
		UNROLLED for (int i = 0; i < KIB_INTS; i++)
			*at++ = *from++;
}

static uint64_t pass(uint64_t kib)
{
	const uint64_t last = kib * KIB_INTS - 1;

	from[last] = ++passes;
	copy(to, from, kib);
	return to[last] == passes ? kib : 0;
}

static void bcopy_run(const struct order *o)
{
	const uint64_t kib = param(o, "mib", 8) * MIB_KIB, first = o->ops < kib ? o->ops : kib;

	from = filled_kib(kib);
	to = filled_kib(kib + PAGE / KIB) + 32;
	bandwidth(o, kib, kib, pass, "kib");
	sig("same", !memcmp(from, to, first * KIB));
}

static void bcopy_libc_run(const struct order *o)
{
	copy = copy_libc;
	bcopy_run(o);
}

static void bcopy_hand_run(const struct order *o)
{
	copy = copy_hand;
	bcopy_run(o);
}

WORKLOAD("bcopy-libc", bcopy_libc_run);
WORKLOAD("bcopy-hand", bcopy_hand_run);
