/* SPDX-License-Identifier: MIT */
/* Store to an anonymous page that a child shares since its fork: the fault copies it. */
#include <unistd.h>

#include "ktax.h"

static char *next;

static int op(void)
{
	*(volatile char *)next = 2;
	next += PAGE;
	return 0;
}

/* Keeps its pages until the other end of the pipe is closed; they must be as they were. */
static __attribute__((noreturn)) void keep(const char *map, uint64_t n, const int end[2])
{
	uint64_t changed = 0;
	char byte;

	close(end[1]);
	if (read(end[0], &byte, 1))
		_exit(1);
	for (uint64_t i = 0; i < n; i++)
		changed += map[i * PAGE] != 1;
	_exit(changed != 0);
}

static void page_fault_cow_run(const struct order *o)
{
	const uint64_t warm_up = 512, n = warm_up + o->ops;
	int end[2];

	next = pages(n);
	for (uint64_t i = 0; i < n; i++)
		next[i * PAGE] = 1;
	if (pipe(end))
		fail("pipe");
	pid_t pid = worker();
	if (pid < 0)
		fail("clone");
	if (!pid)
		keep(next, n, end);
	measure(o, warm_up, op, "touches");
	sig("faults", region_faults);
	close(end[1]);
	sig("children", child_succeeded(pid));
}

WORKLOAD("page-fault-cow", page_fault_cow_run);
