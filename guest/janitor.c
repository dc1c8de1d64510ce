/* SPDX-License-Identifier: MIT */
/*
 * Natively, the janitor is a second process. It outlives the workload however that ends, and
 * removes what is left: the process group, the scratch directory and the IPC objects. It keeps
 * stdout open until then, so the end of the output means that nothing is left.
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
		return own; /* saves each fork of each workload a mapping to copy */
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
	 * One kill is enough: a fork in the group either sees the signal and fails, or its child
	 * gets the signal. The kernel does not reuse the group's number while the group has
	 * members, and without members not before it has used all other numbers.
	 */
	kill(-group, SIGKILL);
	/* A process that was killed during a system call completes it, and may make a file. */
	(void)!read(alive, &byte, 1);
	before_end();
	_exit(0);
}

void janitor_start(void)
{
	pid_t self = getpid(), first;
	int alive[2]; /* end of file: this process and all its children are gone */

	janitor_share();
	setpgid(0, 0); /* fails for a session leader, which has its own group already */
	int pidfd = syscall(SYS_pidfd_open, self, 0);
	if (pidfd < 0 || getpgrp() != self)
		fail("pidfd_open needs Linux 5.3, and a process group");
	if (pipe(alive))
		fail("pipe");
	first = fork();
	if (first < 0)
		fail("fork");
	if (!first) {
		/* Not a child of the workload's process, which may wait for any child. */
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
