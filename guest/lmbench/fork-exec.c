/* SPDX-License-Identifier: MIT */
/* Make a process that executes a tiny static program, and wait for it. */
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static const char *program;

static int op(void)
{
	char *const arguments[] = { "hello", NULL }, *const environment[] = { NULL };
	pid_t pid = child();

	if (!pid) {
		syscall(SYS_execve, program, arguments, environment);
		syscall(SYS_exit_group, 127);
	}
	return pid < 0 || !child_succeeded(pid);
}

static void fork_exec_run(const struct order *o)
{
	program = hello_program();
	if (access(program, X_OK))
		fail(program);
	measure(o, 20, op, "children");
}

WORKLOAD("fork-exec", fork_exec_run);
