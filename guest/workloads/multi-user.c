/* SPDX-License-Identifier: MIT */
/*
 * Many users of one machine, each a process that does the same jobs in an order of its own. One
 * pipe tells when all of them are there, another lets them start together: each by its end, which
 * comes too where a user is killed before, so that nobody waits for ever.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jobs.h"
#include "tools.h"

/* A user's entry in memory that all of them share. */
struct user {
	uint64_t work[JOBS]; /* what was done, in the unit of the job: files, bytes, forks ... */
	uint64_t jobs, end;  /* how many; when the last was done, in microseconds */
	pid_t pid;
	int job, error;      /* the job that came last, and its errno */
	const char *step;    /* of it that failed */
} __attribute__((aligned(128))); /* no line of the cache belongs to two */

static struct user *me;
static int first_key;
static unsigned cycles[JOBS];

/* Once, before there are users. */
static void jobs_prepare(uint64_t users, bool sleep)
{
	if (chdir(scratch_directory()))
		fail("chdir");
	first_key = scratch_keys(users);
	fixtures_prepare(sleep);
}

/* This process is that user from here on. */
static void jobs_user(struct user *u, unsigned number)
{
	me = u;
	user_number = number;
	user_key = first_key + number;
}

/* The sizes of messages start anew. */
static void jobs_rewind(void)
{
	memset(cycles, 0, sizeof(cycles));
}

/* False: a step failed. */
static bool job_do(unsigned which)
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

/* Fails with the step of a job that failed. */
static __attribute__((noreturn)) void job_blame(const struct user *u)
{
	static char what[128];

	strcat(strcat(strcpy(what, jobs[u->job].name), ": "), u->step);
	errno = u->error;
	fail(what);
}

/* A hundred by weight; each share is rounded to whole jobs, so that the sum is not a hundred. */
static unsigned share(unsigned which)
{
	const unsigned wanted = 100;
	unsigned total = 0, n;

	for (unsigned i = 0; i < JOBS; i++)
		total += jobs[i].weight;
	n = (2 * wanted * jobs[which].weight + total) / (2 * total);
	return n ? n : 1;
}

/* Each job once. */
static bool jobs_each(void)
{
	for (unsigned which = 0; which < JOBS; which++)
		if (!job_do(which))
			return false;
	return true;
}

/* Each job as often as a user does it, in random order. */
static bool jobs_round(uint64_t *random)
{
	unsigned kind[JOBS], left[JOBS], kinds = JOBS;

	jobs_rewind();
	for (unsigned i = 0; i < JOBS; i++) {
		kind[i] = i;
		left[i] = share(i);
	}
	while (kinds) {
		unsigned at = below(random, kinds), which = kind[at];
		if (!job_do(which))
			return false;
		if (!--left[which])
			kind[at] = kind[--kinds];
	}
	return true;
}

static struct user *user; /* one more than there are users, for the warm-up */
static uint64_t users;

/* No user outlives a run that fails: it could still make files while their directory goes. */
static __attribute__((noreturn)) void users_give_up(const struct user *u, const char *what)
{
	int error = errno;

	for (uint64_t i = 0; i <= users; i++)
		if (user[i].pid > 0)
			kill(user[i].pid, SIGKILL);
	while (syscall(SYS_wait4, -1, NULL, 0, NULL) > 0)
		;
	if (u && u->step)
		job_blame(u);
	errno = error;
	fail(what);
}

/* Returns 0 in the user. */
static pid_t user_begin(uint64_t number)
{
	pid_t pid = worker();

	if (pid < 0)
		users_give_up(NULL, "a process for each user");
	if (pid)
		user[number].pid = pid;
	else
		jobs_user(&user[number], number);
	return pid;
}

/* Waits for one, whichever. */
static void user_reap(void)
{
	int status;
	pid_t pid = syscall(SYS_wait4, -1, &status, 0, NULL);
	uint64_t i = 0;

	if (pid < 0)
		users_give_up(NULL, "wait");
	while (i < users && user[i].pid != pid)
		i++;
	user[i].pid = 0;
	errno = ECANCELED;
	if (status)
		users_give_up(&user[i], "a user who was killed");
}

static uint64_t users_clock(void)
{
	return nanoseconds() / 1000;
}

static uint64_t root(uint64_t square)
{
	uint64_t low = 0, high = UINT32_MAX;

	while (low < high) {
		uint64_t middle = low + (high - low + 1) / 2;
		if (middle * middle <= square)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static void times_say(uint64_t start)
{
	uint64_t sum = 0, min = UINT64_MAX, max = 0;
	unsigned __int128 squares = 0;

	for (uint64_t i = 0; i < users; i++) {
		uint64_t t = user[i].end - start;
		sum += t;
		min = t < min ? t : min;
		max = t > max ? t : max;
	}
	for (uint64_t i = 0; i < users; i++) {
		__int128 off = (__int128)(user[i].end - start) - sum / users;
		squares += off * off;
	}
	value("elapsed-mean-us", sum / users);
	value("elapsed-stddev-us", root(squares / users)); /* these are all, no sample */
	value("elapsed-min-us", min);
	value("elapsed-max-us", max);
}

/* Reports what the users did, and natively how long and how evenly. */
static void multi_user_say(uint64_t start)
{
	uint64_t end = users_clock(), jobs_done = 0;

	for (unsigned which = 0; which < JOBS; which++) {
		uint64_t work = 0;
		for (uint64_t i = 0; i < users; i++)
			work += user[i].work[which];
		sig(jobs[which].name, work);
	}
	for (uint64_t i = 0; i < users; i++)
		jobs_done += user[i].jobs;
	sig("jobs", jobs_done);
	if (counted)
		return;
	value("parent-us", end - start);
	times_say(start);
}

static int ready[2], go[2];

static __attribute__((noreturn)) void live(uint64_t number, uint64_t rounds, uint64_t random)
{
	char byte;

	close(go[1]);
	if (write(ready[1], "", 1) != 1 || close(ready[1]) || read(go[0], &byte, 1))
		_exit(1);
	while (rounds && jobs_round(&random))
		rounds--;
	user[number].end = users_clock();
	_exit(rounds != 0);
}

/* Whoever dies now is noticed by the missing byte. */
static void wait_until_ready(void)
{
	uint64_t there = 0;
	char bytes[512];

	close(ready[1]);
	for (ssize_t n; (n = read(ready[0], bytes, sizeof(bytes))) > 0;)
		there += n;
	errno = ECANCELED;
	if (there != users)
		users_give_up(NULL, "a user who did not start");
}

static void high_systime_run(const struct order *o)
{
	const int flags = MAP_SHARED | MAP_ANONYMOUS;
	uint64_t seed = param(o, "seed", 1), start, ended = 0;

	users = param(o, "users", 1);
	errno = EINVAL;
	if (users < 1 || users > 10000)
		fail("users");
	user = mmap(NULL, (users + 1) * sizeof(*user), PROT_READ | PROT_WRITE, flags, -1, 0);
	if (user == MAP_FAILED)
		fail("mmap");
	jobs_prepare(users + 1, param(o, "sleep-jobs", 0));
	if (!user_begin(users))
		_exit(!jobs_each());
	user_reap();
	if (pipe(ready) || pipe(go))
		fail("pipe");
	for (uint64_t i = 0; i < users; i++)
		if (!user_begin(i))
			live(i, o->ops, seed + i);
	wait_until_ready();
	start = users_clock();
	region_begin();
	close(go[1]);
	for (; ended < users; ended++)
		user_reap();
	region_end();
	multi_user_say(start);
	sig("users", ended);
}

WORKLOAD("high-systime", high_systime_run);

/* One of the jobs of high-systime, in one process and without the others. */
static struct user one, failed;
static uint64_t which, of_one;

/* Each does as much as the first did. */
static int one_job(void)
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
	if (one_job())
		job_blame(&failed);
	of_one = one.work[which];
	measure(o, warm_up, one_job, "jobs");
	if (failed.step)
		job_blame(&failed);
	sig(jobs[which].name, one.work[which] - (1 + warm_up) * of_one);
}

WORKLOAD("high-systime-job", high_systime_job_run);
