/* SPDX-License-Identifier: MIT */
/*
 * Workers, each on a CPU of its own: threads of one process, which share everything, or processes,
 * which share nothing that they can avoid to. They are ready before the Region, and end behind it.
 */
#include <errno.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scale.h"
#include "team.h"

enum { WARM_UP = 200 };

static struct common {
	sem_t arrived, done, leave;
	sem_t go[SCALE_MAX];
	uint64_t calls[SCALE_MAX];
} *common;

static const struct scale_call *call;
static uint64_t ops, cpus, is_own;

/* The first workers make what is left over by a division. */
static uint64_t share_of(unsigned worker)
{
	return ops / cpus + (worker < ops % cpus);
}

/* Ends at a failure: whoever sent and cannot receive would fill the pipe of all, and wait. */
static uint64_t repeat(unsigned worker, uint64_t times)
{
	uint64_t done = 0;

	while (done < times && call->op(worker) == 0)
		done++;
	return done;
}

static void work(unsigned worker)
{
	team_pin(worker);
	if (is_own && call->prepare && call->prepare(worker))
		fail(call->name);
	if (repeat(worker, WARM_UP) != WARM_UP)
		fail("warm-up");
	sem_post(&common->arrived);
	sem_wait(&common->go[worker]);
	common->calls[worker] = repeat(worker, share_of(worker));
	sem_post(&common->done);
	sem_wait(&common->leave); /* the end of a worker is not in the Region */
}

static void each(int (*do_it)(sem_t *), sem_t *semaphore)
{
	for (uint64_t i = 0; i < cpus; i++)
		do_it(semaphore);
}

static void start(pid_t *processes)
{
	if (!is_own)
		team_start(cpus, work);
	for (unsigned i = 0; is_own && i < cpus; i++) {
		processes[i] = worker();
		if (processes[i] < 0)
			fail("fork");
		if (processes[i] == 0) {
			work(i);
			_exit(0);
		}
	}
	each(sem_wait, &common->arrived);
	usleep(1000); /* the last is still on its way from there to where it waits */
}

static void end(const pid_t *processes)
{
	uint64_t done = 0;

	each(sem_post, &common->leave);
	if (!is_own)
		team_join();
	for (unsigned i = 0; is_own && i < cpus; i++)
		if (!child_succeeded(processes[i]))
			fail("a worker");
	for (unsigned i = 0; i < cpus; i++)
		done += common->calls[i];
	sig("calls", done);
	sig("failed", ops - done);
}

static void scale_run(const struct order *o)
{
	const uint64_t index = param(o, "call", 0);
	pid_t processes[SCALE_MAX];

	cpus = param(o, "cpus", 1);
	is_own = param(o, "objects", 0);
	ops = o->ops;
	errno = EINVAL;
	if (index >= scale_calls_count || !cpus || cpus > SCALE_MAX)
		fail("a call, or 1 to 32 CPUs");
	if (in_guest && cpus > team_cpus())
		fail("cpus: there are fewer here");
	call = &scale_calls[index];
	common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (common == MAP_FAILED)
		fail("mmap");
	sem_init(&common->arrived, 1, 0);
	for (unsigned i = 0; i < cpus; i++)
		sem_init(&common->go[i], 1, 0);
	sem_init(&common->done, 1, 0);
	sem_init(&common->leave, 1, 0);
	scratch_directory();
	if (!is_own && call->prepare && call->prepare(0))
		fail(call->name);
	start(processes);
	/* A worker that wakes here may keep this CPU until it is done: the others go before it. */
	team_pin(cpus - 1);
	region_begin();
	for (unsigned i = 0; i < cpus; i++)
		sem_post(&common->go[i]);
	each(sem_wait, &common->done);
	region_end();
	end(processes);
}

WORKLOAD("scale", scale_run);
