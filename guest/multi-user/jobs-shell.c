/* SPDX-License-Identifier: MIT */
/*
 * Jobs that execute what the original has as a shell, a script and `ls -l` or `sleep`: roles of
 * this program, so that no machine's shell is measured.
 */
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "jobs.h"

/* Each takes the path of what it executes and the words of that; it exits with 0 or an errno. */
static char *list_words[] = { "role:jobs-sh", NULL, "role:jobs-script", NULL,
			      "role:jobs-ls", "list", NULL };
static char *sleep_words[] = { "role:jobs-sh", NULL, "role:jobs-script", NULL,
			       "role:jobs-sleep", "0", NULL };

static int execute(const char *path, char **words)
{
	syscall(SYS_execve, path, words, (char *[]){ NULL });
	return errno;
}

static int sh(int argc, char **argv)
{
	return argc > 2 ? execute(argv[1], argv + 2) : EINVAL;
}
ROLE("jobs-sh", sh);

static int script(int argc, char **argv)
{
	pid_t pid = child();

	if (!pid)
		syscall(SYS_exit_group, sh(argc, argv));
	return child_error(pid);
}
ROLE("jobs-script", script);

static int snooze(int argc, char **argv)
{
	struct timespec t = { .tv_sec = argc == 2 ? argv[1][0] - '0' : 0 };

	return t.tv_sec && syscall(SYS_nanosleep, &t, NULL) ? errno : 0;
}
ROLE("jobs-sleep", snooze);

void shell_prepare(bool sleep)
{
	list_words[1] = list_words[3] = sleep_words[1] = sleep_words[3] = (char *)role_program;
	if (sleep)
		sleep_words[5] = "5";
	if (access(role_program, X_OK))
		fail(role_program);
}

const char *exec_test(void)
{
	for (unsigned i = 0; i < 5; i++) {
		pid_t pid = child();
		if (!pid)
			syscall(SYS_exit_group, execute(role_program, list_words + 2));
		if (!child_did(pid))
			return "a script that lists";
		++*job_done;
	}
	return NULL;
}

/* A child that calls system(): a child of its own for the shell, and the wait for it. */
static const char *shell(char **words, const char *what)
{
	pid_t pid = child();

	if (!pid) {
		pid = child();
		if (!pid)
			syscall(SYS_exit_group, execute(role_program, words));
		syscall(SYS_exit_group, child_error(pid));
	}
	if (!child_did(pid))
		return what;
	++*job_done;
	return NULL;
}

const char *shell_list(void)
{
	return shell(list_words, "a shell that lists");
}

const char *shell_sleep(void)
{
	return shell(sleep_words, "a shell that sleeps");
}
