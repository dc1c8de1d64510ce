/* SPDX-License-Identifier: MIT */
/*
 * Natively, a process that outlives this one, however that ends, and takes away what is left: its
 * process group, its scratch directory and its IPC objects. It keeps stdout open until then, so
 * that who reads to the end of it knows that nothing is left.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

void *janitor_shared(void *own, size_t size)
{
	if (in_guest)
		return own; /* one mapping less for each fork of each workload to copy */
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		fail("mmap");
	return at;
}

static __attribute__((noreturn)) void watch(int pidfd, pid_t group, int alive)
{
	struct pollfd end = { .fd = pidfd, .events = POLLIN };
	sigset_t all;
	char byte;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	while (poll(&end, 1, -1) != 1)
		;
	/*
	 * One kill is enough: a fork in the group either sees the signal and fails or has made a
	 * member that gets it. The group's number is not used again while it has members, and where
	 * it has none, not before all other numbers were.
	 */
	kill(-group, SIGKILL);
	/* Whoever was killed in the middle of a call still ends it, and it may make a file. */
	(void)!read(alive, &byte, 1);
	scratch_remove();
	_exit(0);
}

void janitor_start(void)
{
	pid_t self = getpid(), first;
	int alive[2]; /* its end of file: this process is gone, and all that come from it */

	scratch_share();
	setpgid(0, 0); /* refused to a session leader, which has a group of its own already */
	int pidfd = syscall(SYS_pidfd_open, self, 0);
	if (pidfd < 0 || getpgrp() != self)
		fail("pidfd_open needs Linux 5.3, and a process group");
	if (pipe(alive))
		fail("pipe");
	first = fork();
	if (first < 0)
		fail("fork");
	if (!first) {
		/* Not a child of who runs the workload, which may wait for any of its children. */
		setsid();
		pid_t second = fork();
		if (!second) {
			close(alive[1]);
			watch(pidfd, self, alive[0]);
		}
		_exit(second < 0);
	}
	if (!child_succeeded(first))
		fail("fork");
	close(pidfd);
	close(alive[0]);
}
