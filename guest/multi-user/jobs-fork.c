/* SPDX-License-Identifier: MIT */
/* A job of a hundred processes, and one of a thousand signals. */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs.h"

int child_error(pid_t pid)
{
	int status;

	if (pid < 0 || syscall(SYS_wait4, pid, &status, 0, NULL) != pid)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* As a shell waits: until there is nothing left to wait for. */
bool child_did(pid_t pid)
{
	errno = child_error(pid);
	if (errno)
		return false;
	if (syscall(SYS_wait4, -1, NULL, 0, NULL) > 0 || errno != ECHILD)
		return false;
	errno = 0;
	return true;
}

const char *fork_test(void)
{
	for (unsigned i = 0; i < 100; i++) {
		pid_t pid = child();
		if (!pid)
			syscall(SYS_exit_group, 0);
		if (!child_did(pid))
			return "a child";
		++*job_done;
	}
	return NULL;
}

static volatile sig_atomic_t caught;

static void handler(int number)
{
	signal(number, handler); /* again, as where a signal takes its handler away */
	caught++;
}

const char *signal_test(void)
{
	const pid_t self = syscall(SYS_getpid);

	caught = 0;
	if (signal(SIGUSR2, handler) == SIG_ERR)
		return "signal";
	for (int i = 0; i < 1000; i++) {
		if (syscall(SYS_kill, self, SIGUSR2))
			return "kill";
		if (caught != i + 1)
			return "handler";
		++*job_done;
	}
	return NULL;
}
