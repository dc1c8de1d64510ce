/* SPDX-License-Identifier: MIT */
/* Control: one REP MOVSB of `bytes` bytes; REP iterations without any kernel in them. */
#include <errno.h>
#include <string.h>

#include "ktax.h"

static char from[65536], to[65536];
static uint64_t bytes;

static int op(void)
{
	char *source = from, *target = to;
	uint64_t left = bytes;

	__asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(left)::"memory");
	return target != to + bytes;
}

static void control_rep_run(const struct order *o)
{
	bytes = param(o, "bytes", 4096);
	errno = EFBIG;
	if (bytes > sizeof(from))
		fail("bytes");
	memset(from, 'x', sizeof(from));
	memset(to, 0, sizeof(to));
	measure(o, 10, op, "copies");
	sig("same", !memcmp(from, to, bytes));
}

WORKLOAD("control-rep", control_rep_run);
