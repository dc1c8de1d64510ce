/* SPDX-License-Identifier: MIT */
/*
 * Control: an operation of exactly 3 + `extra` instructions in user mode. Every value of extra,
 * from the order and from the boot parameter ktax.extra together, runs the same loop and only
 * enters its run of one-byte NOPs at another place.
 */
#include <errno.h>

#include "ktax.h"

enum { NOPS = 64 };

static __attribute__((noinline, noclone)) uint64_t loop(uint64_t times, uint64_t extra)
{
	uint64_t entry;

	__asm__ volatile("lea 2f(%%rip), %1\n"
			 "sub %2, %1\n"
			 "1: jmp *%1\n"
			 ".fill %c3, 1, 0x90\n"
			 "2: dec %0\n"
			 "jnz 1b\n"
			 : "+&r"(times), "=&r"(entry)
			 : "r"(extra), "i"(NOPS)
			 : "cc");
	return times;
}

static void control_loop_run(const struct order *o)
{
	uint64_t extra = param(o, "extra", 0) + boot_param("extra"), left;

	errno = ERANGE;
	if (extra > NOPS)
		fail("extra");
	loop(1000, extra);
	region_begin();
	left = loop(o->ops, extra);
	region_end();
	sig("calls", o->ops - left);
	sig("failed", left);
}

WORKLOAD("control-loop", control_loop_run);
