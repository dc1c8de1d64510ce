/* SPDX-License-Identifier: MIT */
/* Make a process that executes a tiny static program, and wait for it. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static const char *program = "/bin/hello";

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

/* Natively: $KTAX_HELLO, or ktax-hello beside this program. */
static void find_program(void)
{
	static char beside[4096];
	ssize_t length = readlink("/proc/self/exe", beside, sizeof(beside) - sizeof("ktax-hello"));

	program = getenv("KTAX_HELLO");
	if (program)
		return;
	while (length > 0 && beside[length - 1] != '/')
		length--;
	strcpy(beside + (length > 0 ? length : 0), "ktax-hello");
	program = beside;
}

static void fork_exec_run(const struct order *o)
{
	if (!in_guest)
		find_program();
	if (access(program, X_OK))
		fail(program);
	measure(o, 20, op, "children");
}

WORKLOAD("fork-exec", fork_exec_run);
