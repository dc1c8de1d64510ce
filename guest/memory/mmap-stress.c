/* SPDX-License-Identifier: MIT */
/*
 * A thread or several that stress the one memory map that they share. Each has an arena and a seed
 * of its own, so that what each does depends on nothing; they meet only in the kernel.
 */
#include <errno.h>
#include <pthread.h>

#include "ktax.h"
#include "stress.h"
#include "team.h"

enum { THREADS_MAX = 64 };

static struct arena arenas[THREADS_MAX];
static struct stress all[THREADS_MAX];
static uint64_t ops;
static pthread_barrier_t prepared, begin;

static void warm_up(struct stress *me)
{
	stress_steps(me, 1000);
	arena_clear(me->arena);
}

static void work(unsigned n)
{
	warm_up(&all[n]);
	pthread_barrier_wait(&prepared);
	pthread_barrier_wait(&begin);
	stress_steps(&all[n], ops);
}

static void start(unsigned threads)
{
	pthread_barrier_init(&prepared, NULL, threads + 1);
	pthread_barrier_init(&begin, NULL, threads + 1);
	team_start(threads, work);
	pthread_barrier_wait(&prepared);
}

static void results(unsigned threads)
{
	struct stress sum = { .seed = 0 };
	struct layout layout;
	uint64_t vmas = 0;

	for (unsigned i = 0; i < threads; i++) {
		sum.did.calls += all[i].did.calls;
		sum.did.mmap += all[i].did.mmap;
		sum.did.munmap += all[i].did.munmap;
		sum.did.mremap += all[i].did.mremap;
		sum.did.failed += all[i].did.failed;
		sum.did.skipped += all[i].did.skipped;
		sum.did.touches += all[i].did.touches;
		layout = arena_layout(&arenas[i]);
		vmas += layout.vmas;
	}
	sig("calls", sum.did.calls);
	sig("mmap", sum.did.mmap);
	sig("munmap", sum.did.munmap);
	sig("mremap", sum.did.mremap);
	sig("failed", sum.did.failed);
	sig("skipped", sum.did.skipped);
	sig("touches", sum.did.touches);
	sig("vmas", vmas);
	if (threads == 1)
		sig("layout-hash", layout.hash);
}

static void mmap_stress_run(const struct order *o)
{
	const uint64_t threads = param(o, "threads", 1);

	errno = EINVAL;
	if (!threads || threads > THREADS_MAX)
		fail("threads");
	ops = o->ops;
	arena_reserve(arenas, threads);
	for (unsigned i = 0; i < threads; i++)
		all[i] = (struct stress){ .seed = 1 + i, .arena = &arenas[i] };
	if (threads > 1)
		start(threads);
	else /* in the main thread, so that there is no other */
		warm_up(all);
	region_begin();
	if (threads > 1) {
		pthread_barrier_wait(&begin);
		team_join();
	} else {
		stress_steps(all, ops);
	}
	region_end();
	sig("faults", region_faults);
	results(threads);
}

WORKLOAD("mmap-stress", mmap_stress_run);
