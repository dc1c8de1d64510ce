/* SPDX-License-Identifier: MIT */
/* Who does the jobs, and on what. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "jobs.h"

unsigned user_number, *job_cycle;
int user_key;
uint64_t *job_done;

static struct user *me;
static int first_key;
static unsigned cycles[JOBS];

void jobs_prepare(uint64_t users, bool sleep)
{
	if (chdir(scratch_directory()))
		fail("chdir");
	first_key = scratch_keys(users);
	list_prepare();
	misc_prepare();
	shell_prepare(sleep);
}

void jobs_user(struct user *u, unsigned number)
{
	me = u;
	user_number = number;
	user_key = first_key + number;
}

void jobs_rewind(void)
{
	memset(cycles, 0, sizeof(cycles));
}

bool job_do(unsigned which)
{
	job_done = &me->work[which];
	job_cycle = &cycles[which];
	me->job = which;
	errno = 0;
	me->step = jobs[which].run();
	me->error = errno;
	me->jobs += !me->step;
	return !me->step;
}

void job_blame(const struct user *u)
{
	static char what[128];

	strcat(strcat(strcpy(what, jobs[u->job].name), ": "), u->step);
	errno = u->error;
	fail(what);
}
