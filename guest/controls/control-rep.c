/* SPDX-License-Identifier: MIT */
/* Control: an operation of six instructions in user mode, one of them a REP MOVSB. */
#include <errno.h>
#include <string.h>

#include "ktax.h"

static char from[65536], to[65536];

static __attribute__((noinline, noclone)) void loop(uint64_t times, uint64_t bytes)
{
	__asm__ volatile("1: mov %1, %%rsi\n"
			 "mov %2, %%rdi\n"
			 "mov %3, %%rcx\n"
			 "rep movsb\n"
			 "dec %0\n"
			 "jnz 1b\n"
			 : "+&r"(times)
			 : "r"(from), "r"(to), "r"(bytes)
			 : "rsi", "rdi", "rcx", "cc", "memory");
}

static void control_rep_run(const struct order *o)
{
	uint64_t bytes = param(o, "bytes", 4096);

	errno = EFBIG;
	if (bytes > sizeof(from))
		fail("bytes");
	memset(from, 'x', sizeof(from));
	memset(to, 0, sizeof(to));
	loop(10, bytes);
	region_begin();
	loop(o->ops, bytes);
	region_end();
	sig("copies", o->ops);
	sig("failed", 0);
	sig("same", !memcmp(from, to, bytes));
}

WORKLOAD("control-rep", control_rep_run);
