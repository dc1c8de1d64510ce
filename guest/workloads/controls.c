/* SPDX-License-Identifier: MIT */
/* Controls: operations whose counts are known. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools.h"

/*
 * An operation of exactly 3 + `extra` instructions in user mode. Every value of extra,
 * from the order and from the boot parameter ktax.extra together, runs the same loop and only
 * enters its run of one-byte NOPs at another place.
 */
enum { NOPS = 64 };

static __attribute__((noinline, noclone)) uint64_t loop_nops(uint64_t times, uint64_t extra)
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
	loop_nops(1000, extra);
	region_begin();
	left = loop_nops(o->ops, extra);
	region_end();
	sig("calls", o->ops - left);
	sig("failed", left);
}

WORKLOAD("control-loop", control_loop_run);

/*
 * An operation of 1000 turns of a loop in user mode, and as many more as the environment's
 * KTAX_PLANTED says: 50 is 5 % more. It is what a Side of a timed comparison plants with
 * `env KTAX_PLANTED=50` before the command. The signature does not know: it must not differ.
 */
static unsigned long turns;

static int operation(void)
{
	for (unsigned long left = turns; left; left--)
		__asm__ volatile("");
	return 0;
}

static void control_planted_run(const struct order *o)
{
	const char *planted = getenv("KTAX_PLANTED");

	turns = 1000 + (planted ? strtoul(planted, NULL, 10) : 0);
	measure(o, 10, operation, "calls");
}

WORKLOAD("control-planted", control_planted_run);

/* An operation of six instructions in user mode, one of them a REP MOVSB. */
static char from[65536], to[65536];

static __attribute__((noinline, noclone)) void loop_copies(uint64_t times, uint64_t bytes)
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
	loop_copies(10, bytes);
	region_begin();
	loop_copies(o->ops, bytes);
	region_end();
	sig("copies", o->ops);
	sig("failed", 0);
	sig("same", !memcmp(from, to, bytes));
}

WORKLOAD("control-rep", control_rep_run);

/*
 * Two CPUs, each of which counts for itself. The counters are in one cache line, or with
 * `apart` in two; nothing else differs.
 */
enum { CPUS = 2, NEAR = 8, FAR = 64 };

static char counters[CPUS * FAR] __attribute__((aligned(FAR)));
static uint64_t stride, times;

static void count(unsigned worker)
{
	volatile uint64_t *own = (volatile uint64_t *)(counters + worker * stride);

	team_pin(worker);
	for (uint64_t i = 0; i < times; i++)
		++*own;
}

static uint64_t counter_of(unsigned worker)
{
	return *(const uint64_t *)(counters + worker * stride);
}

static void control_sharing_run(const struct order *o)
{
	stride = param(o, "apart", 0) ? FAR : NEAR;
	times = o->ops / CPUS;
	errno = EINVAL;
	if (team_cpus() < CPUS)
		fail("two CPUs");
	region_begin();
	team_start(CPUS, count);
	team_join();
	region_end();
	sig("calls", counter_of(0) + counter_of(1));
	sig("failed", o->ops - counter_of(0) - counter_of(1));
}

WORKLOAD("control-sharing", control_sharing_run);

/* Sleeps, so that a Region has only what the kernel does by itself. */
static int sleep_a_tenth(void)
{
	return nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
}

static void control_sleep_run(const struct order *o)
{
	measure(o, 1, sleep_a_tenth, "sleeps");
}

WORKLOAD("control-sleep", control_sleep_run);
