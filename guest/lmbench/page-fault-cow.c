/* SPDX-License-Identifier: MIT */
/* Store to an anonymous page that a child shares since its fork: the fault copies it. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ktax.h"

static char *next;

static int op(void)
{
	*(volatile char *)next = 2;
	next += PAGE;
	return 0;
}

/* Stands still until the end of the Region; its pages must then be as they were. */
static __attribute__((noreturn)) void keep(const char *map, uint64_t n)
{
	uint64_t changed = 0;

	kill(getpid(), SIGSTOP);
	for (uint64_t i = 0; i < n; i++)
		changed += map[i * PAGE] != 1;
	_exit(changed != 0);
}

static void page_fault_cow_run(const struct order *o)
{
	const uint64_t warm_up = 512, n = warm_up + o->ops;
	int status;

	next = pages(n);
	for (uint64_t i = 0; i < n; i++)
		next[i * PAGE] = 1;
	pid_t pid = worker();
	if (pid < 0)
		fail("clone");
	if (!pid)
		keep(next, n);
	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		fail("stop");
	measure(o, warm_up, op, "touches");
	sig("faults", region_faults);
	kill(pid, SIGCONT);
	sig("children", child_succeeded(pid));
}

WORKLOAD("page-fault-cow", page_fault_cow_run);
