/* SPDX-License-Identifier: MIT */
/*
 * Many users of one machine, each a process that does the same jobs in an order of its own. One
 * pipe tells when all of them are there, another lets them start together: each by its end, which
 * comes too where a user is killed before, so that nobody waits for ever.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "jobs.h"

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
