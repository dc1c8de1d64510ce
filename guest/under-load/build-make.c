/* SPDX-License-Identifier: MIT */
/* What make does: keeps a number of units going until all are done, then has them linked. */
#include <errno.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build.h"
#include "team.h"

struct build build;

static char words[ARGUMENTS][PATH_BYTES];
static char *argv[ARGUMENTS + 1];

static bool start(char *role, uint64_t unit)
{
	argv[ROLE_NAME] = role;
	build_path(words[UNIT], "", unit, "");
	pid_t pid = child();
	if (!pid) {
		syscall(SYS_execve, argv[PROGRAM], argv, (char *[]){ NULL });
		syscall(SYS_exit_group, 127);
	}
	return pid > 0;
}

/* Whichever it is. */
static bool one_ended(void)
{
	int status;

	return syscall(SYS_wait4, -1, &status, 0, NULL) > 0 && !status;
}

/* What was started is waited for even after a failure: nobody writes files behind our back. */
static bool made(uint64_t units)
{
	uint64_t started = 0, ended = 0;
	bool good = true;

	while (ended < started || (good && started < units)) {
		if (good && started < units && started - ended < build.jobs) {
			good = start("role:cc", started);
			started += good;
		} else {
			good &= one_ended();
			ended++;
		}
	}
	return good && start("role:ld", units) && one_ended();
}

/* A process of its own, as make is: whatever ends below it is of the job, never of a load. */
__attribute__((noinline, noclone)) bool build_run(uint64_t units)
{
	pid_t pid = worker();

	if (!pid)
		syscall(SYS_exit_group, !made(units));
	return pid > 0 && child_succeeded(pid);
}

void build_configure(const struct order *o)
{
	build.jobs = param(o, "jobs", 0);
	errno = EINVAL;
	if (build.jobs > JOBS_MAX)
		fail("jobs");
	if (!build.jobs)
		build.jobs = team_cpus() < JOBS_MAX ? team_cpus() : JOBS_MAX;
	build.headers = param(o, "headers", 20);
	for (int i = 0; i < ARGUMENTS; i++)
		argv[i] = words[i];
	argv[PROGRAM] = (char *)role_program;
	build_path(words[HEADERS], "", build.headers, "");
	build_path(words[HEAP], "", param(o, "heap", 1), "");
	build_path(words[BURN], "", param(o, "burn", 100), "");
}
