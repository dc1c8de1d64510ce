/* SPDX-License-Identifier: MIT */
/* Making them and ending them are two steps, so that a Region can have one or both. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "crowd.h"
#include "ktax.h"

/* Shared, so that no fork copies it. */
static struct {
	uint32_t go;
	pid_t pid[];
} *crowd;

/*
 * Where instructions are counted no child may run before the parent waits, or the timer tick would
 * decide how many of them are in the Region. Elsewhere they have CPUs of their own.
 */
static void go_first(void)
{
	struct sched_param priority = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority))
		fail("sched_setscheduler");
}

void crowd_of(uint64_t most)
{
	const int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE;
	const uint64_t pids = 4 << 20; /* that any kernel has */
	size_t size = sizeof(*crowd) + most * sizeof(pid_t);

	errno = EAGAIN;
	if (most > pids)
		fail("children");
	crowd = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (crowd == MAP_FAILED)
		fail("mmap");
	if (counted)
		go_first();
}

uint64_t crowd_begin(uint64_t n)
{
	uint64_t failed = 0;

	for (uint64_t i = 0; i < n; i++) {
		pid_t pid = child();
		if (!pid) {
			while (!__atomic_load_n(&crowd->go, __ATOMIC_ACQUIRE))
				syscall(SYS_futex, &crowd->go, FUTEX_WAIT, 0, NULL);
			syscall(SYS_exit_group, 0);
		}
		failed += pid < 0;
		crowd->pid[i] = pid;
	}
	return failed;
}

uint64_t crowd_end(uint64_t n)
{
	uint64_t failed = 0;

	__atomic_store_n(&crowd->go, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &crowd->go, FUTEX_WAKE, INT_MAX);
	for (uint64_t i = 0; i < n; i++)
		failed += crowd->pid[i] > 0 && !child_succeeded(crowd->pid[i]);
	crowd->go = 0;
	return failed;
}
