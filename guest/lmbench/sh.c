/* SPDX-License-Identifier: MIT */
/*
 * Make a process that executes a shell that makes a process that executes a tiny program. The
 * shell is this program in the role "sh", so that no dynamic linker and no distribution's shell is
 * measured; real-shell=1 takes /bin/sh, natively.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static const char *shell;
static char *arguments[4] = { "role:sh", "-c" };

/* What a shell does with `-c PROGRAM`, PROGRAM being one word. */
static int sh(int argc, char **argv)
{
	if (argc != 3 || strcmp(argv[1], "-c"))
		return 2;
	pid_t pid = child();
	if (!pid) {
		syscall(SYS_execve, argv[2], (char *[]){ argv[2], NULL }, (char *[]){ NULL });
		syscall(SYS_exit_group, 127);
	}
	return pid < 0 || !child_succeeded(pid);
}
ROLE("sh", sh);

static int op(void)
{
	pid_t pid = child();

	if (!pid) {
		syscall(SYS_execve, shell, arguments, (char *[]){ NULL });
		syscall(SYS_exit_group, 127);
	}
	return pid < 0 || !child_succeeded(pid);
}

static void sh_run(const struct order *o)
{
	shell = role_program;
	if (param(o, "real-shell", 0)) {
		errno = ENOTSUP;
		if (in_guest)
			fail("real-shell: a guest has none");
		shell = "/bin/sh";
		arguments[0] = "sh";
	}
	arguments[2] = (char *)hello_program();
	if (access(shell, X_OK))
		fail(shell);
	if (access(arguments[2], X_OK))
		fail(arguments[2]);
	measure(o, 10, op, "children");
}

WORKLOAD("sh", sh_run);
