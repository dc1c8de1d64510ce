/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <sys/resource.h>

#include "team.h"

enum { STACK = 64 << 10 };

static pthread_t members[TEAM_MAX];
static unsigned count;
static void (*work_of)(unsigned);

pthread_t team_thread(void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	errno = pthread_create(&thread, &attributes, run, argument);
	if (errno)
		fail("pthread_create");
	pthread_attr_destroy(&attributes);
	return thread;
}

static void *run_member(void *member)
{
	work_of((uintptr_t)member);
	return NULL;
}

void team_start(unsigned n, void (*work)(unsigned member))
{
	errno = EINVAL;
	if (n > TEAM_MAX)
		fail("threads");
	work_of = work;
	for (count = 0; count < n; count++)
		members[count] = team_thread(run_member, (void *)(uintptr_t)count);
}

void team_join(void)
{
	for (unsigned i = 0; i < count; i++)
		pthread_join(members[i], NULL);
}

static cpu_set_t allowed; /* filled once: it is one CPU after the first team_pin() */

unsigned team_cpus(void)
{
	if (!CPU_COUNT(&allowed) && sched_getaffinity(0, sizeof(allowed), &allowed))
		fail("sched_getaffinity");
	return CPU_COUNT(&allowed);
}

void team_pin(unsigned member)
{
	unsigned left = member % team_cpus();
	cpu_set_t one;
	int cpu = 0;

	for (; left || !CPU_ISSET(cpu, &allowed); cpu++)
		left -= CPU_ISSET(cpu, &allowed) != 0;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		fail("sched_setaffinity");
}

void raise_limit(int resource, uint64_t wanted, const char *name)
{
	struct rlimit limit;

	getrlimit(resource, &limit);
	if (limit.rlim_max < wanted)
		limit.rlim_max = wanted;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(resource, &limit))
		fail(name);
}
