/* SPDX-License-Identifier: MIT */
/*
 * A token goes round a ring of processes joined by pipes; who gets it sums an array of its own and
 * passes it on. One operation is one hop. All stay on one CPU, so that each hop is a switch.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"
#include "overhead.h"

/* So many hops until nobody is so far behind in time on the CPU that he preempts who wakes him. */
enum { MEMBERS_MAX = 96, WARM_UP = 3200, TOKEN = sizeof(uint32_t) };

static int pipes[MEMBERS_MAX][2]; /* pipes[i] leads to member i; this process is member 0 */
static uint64_t members, words, *array;

static bool put(uint64_t member, uint32_t token)
{
	return syscall(SYS_write, pipes[member][1], &token, TOKEN) == TOKEN;
}

static bool take(uint64_t member, uint32_t *token)
{
	long n = syscall(SYS_read, pipes[member][0], token, TOKEN);
	uint64_t sum = 0;

#pragma GCC unroll 8
	for (uint64_t i = 0; i < words; i++)
		sum += array[i];
	return n == TOKEN && sum == words;
}

/* The token is the number of hops that are left. One of 0 ends the member, and all behind it. */
static __attribute__((noreturn)) void member(uint64_t self, uint64_t next)
{
	uint32_t token;

	while (take(self, &token) && token)
		put(next, token - 1);
	_exit(!put(next, 0));
}

/*
 * Hops beyond whole laps come first: the token enters farther along the ring, and ends here. How
 * many hops there were is seen by what they have taken off the token.
 */
static __attribute__((noinline, noclone)) uint64_t ring(uint32_t hops)
{
	uint64_t next = (members + 1 - hops % members) % members, seen = 0;

	for (uint32_t token = hops, sent; token; token--, next = 1) {
		sent = token;
		if (!put(next, token) || !take(0, &token) || !token)
			fail("ring");
		seen += sent - token + 1;
	}
	return seen;
}

static int alone(void)
{
	static uint64_t hops;
	uint64_t self = hops++ % members;
	uint32_t token;

	return !put(self, 1) || !take(self, &token);
}

static void context_switch_run(const struct order *o)
{
	uint64_t kib = param(o, "kib", 0), self = 1, failed = 0, switches;
	pid_t pids[MEMBERS_MAX];
	cpu_set_t cpu = { 0 };

	members = param(o, "processes", 2);
	words = kib * 1024 / sizeof(*array);
	array = (uint64_t *)pages(kib / 4 + 1);
	CPU_SET(sched_getcpu(), &cpu);
	if (members < 2 || members > MEMBERS_MAX || sched_setaffinity(0, sizeof(cpu), &cpu))
		fail("processes");
	for (uint64_t i = 0; i < members; i++)
		if (pipe(pipes[i]))
			fail("pipe");
	while (self < members && (pids[self] = worker()) > 0)
		self++;
	if (self < members && pids[self] < 0)
		fail("clone");
	for (uint64_t i = 0; i < words; i++) /* after the fork: nobody shares them */
		array[i] = 1;
	if (self < members)
		member(self, (self + 1) % members);
	ring(WARM_UP / members * members + members);
	region_begin();
	switches = ring(o->ops);
	region_end();
	put(1, 0);
	for (uint64_t i = 1; i < members; i++)
		failed += !child_succeeded(pids[i]);
	sig("switches", switches);
	sig("failed", failed);
	overhead(o, alone); /* what a hop costs without the switch */
}

WORKLOAD("context-switch", context_switch_run);
