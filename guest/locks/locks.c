/* SPDX-License-Identifier: MIT */
/*
 * Many threads and one critical section. The main thread holds its lock until all of them want it:
 * otherwise one of them would begin alone, and do most of it before there is any contention.
 */
#include <errno.h>
#include <semaphore.h>
#include <unistd.h>

#include "lock.h"
#include "team.h"

static const struct lock_kind *const kinds[] = { &lock_test_and_set, &lock_ticket, &lock_mcs,
						 &lock_queued, &lock_queued_pv };
static struct waiter waiters[TEAM_MAX + 1]; /* the last is the main thread's */
static struct section shared;
static uint64_t threads, acquired[TEAM_MAX], arrived, pin;
static sem_t all_arrived, done, leave;

static void work(unsigned n)
{
	struct section own = { /* for the warm-up */
		.lock.waiters = waiters,
		.kind = shared.kind,
		.hold = shared.hold,
		.think = shared.think,
		.limit = 100,
	};

	if (pin)
		team_pin(n);
	acquired[n] = section_hammer(&own, &waiters[n]);
	if (__atomic_add_fetch(&arrived, 1, __ATOMIC_RELAXED) == threads)
		sem_post(&all_arrived);
	acquired[n] = section_hammer(&shared, &waiters[n]);
	__atomic_store_n(&lock_stop, true, __ATOMIC_RELAXED);
	sem_post(&done);
	sem_wait(&leave); /* the end of a thread is not in the Region */
}

static void results(void)
{
	uint64_t sum = 0, least = UINT64_MAX, most = 0;

	for (unsigned i = 0; i < threads; i++) {
		sum += acquired[i];
		least = acquired[i] < least ? acquired[i] : least;
		most = acquired[i] > most ? acquired[i] : most;
	}
	sig("lost-updates", sum - shared.total);
	sig("failed", lock_calls.failed);
	value("threads", threads);
	value("acquisitions", shared.total);
	value("min", least);
	value("max", most);
	value("slept", lock_calls.slept);
	value("woken", lock_calls.woken);
}

static void locks_run(const struct order *o)
{
	uint64_t ms = param(o, "ms", 0), lock = param(o, "lock", 0);

	threads = param(o, "overcommit", 0) * team_cpus();
	if (!threads)
		threads = param(o, "threads", 2);
	errno = EINVAL;
	if (lock >= sizeof(kinds) / sizeof(*kinds) || !threads || threads > TEAM_MAX)
		fail("a lock, or 1 to 512 threads");
	if (ms && counted)
		fail("ms: there is no time here");
	shared.lock.waiters = waiters;
	shared.kind = kinds[lock];
	shared.hold = param(o, "hold", 100);
	shared.think = param(o, "think", 100);
	shared.limit = ms ? UINT64_MAX : o->ops;
	pin = param(o, "pin", 0);
	for (unsigned i = 0; i <= threads; i++)
		waiters[i].number = i + 1;
	shared.kind->lock(&shared.lock, &waiters[threads]);
	team_start(threads, work);
	sem_wait(&all_arrived);
	usleep(1000); /* the last is still on its way from there to the lock */
	region_begin();
	shared.kind->unlock(&shared.lock, &waiters[threads]);
	if (ms) {
		usleep(ms * 1000);
		__atomic_store_n(&lock_stop, true, __ATOMIC_RELAXED);
	}
	for (uint64_t i = 0; i < threads; i++)
		sem_wait(&done);
	region_end();
	for (uint64_t i = 0; i < threads; i++)
		sem_post(&leave);
	team_join();
	results();
	sig("unfinished", ms ? 0 : o->ops - shared.total);
}

WORKLOAD("locks", locks_run);
