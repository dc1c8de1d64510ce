/* SPDX-License-Identifier: MIT */
/* One of the jobs of high-systime, in one process and without the others. */
#include <errno.h>

#include "jobs.h"

static struct user one, failed;
static uint64_t which, of_one;

/* Each does as much as the first did. */
static int op(void)
{
	const uint64_t before = one.work[which];

	jobs_rewind(); /* the same messages */
	if (job_do(which) && (!of_one || one.work[which] == before + of_one))
		return 0;
	failed = one;
	return 1;
}

static void high_systime_job_run(const struct order *o)
{
	const uint64_t warm_up = 2;

	which = param(o, "job", 0);
	errno = EINVAL;
	if (which >= JOBS)
		fail("job");
	jobs_prepare(1, false);
	jobs_user(&one, 0);
	if (op())
		job_blame(&failed);
	of_one = one.work[which];
	measure(o, warm_up, op, "jobs");
	if (failed.step)
		job_blame(&failed);
	sig(jobs[which].name, one.work[which] - (1 + warm_up) * of_one);
}

WORKLOAD("high-systime-job", high_systime_job_run);
