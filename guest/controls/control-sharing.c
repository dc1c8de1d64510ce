/* SPDX-License-Identifier: MIT */
/*
 * Control: two CPUs, each of which counts for itself. The counters are in one cache line, or with
 * `apart` in two; nothing else differs.
 */
#include <errno.h>

#include "ktax.h"
#include "team.h"

enum { CPUS = 2, NEAR = 8, FAR = 64 };

static char counters[CPUS * FAR] __attribute__((aligned(FAR)));
static uint64_t stride, times;

static void count(unsigned worker)
{
	volatile uint64_t *own = (volatile uint64_t *)(counters + worker * stride);

	team_pin(worker);
	for (uint64_t i = 0; i < times; i++)
		++*own;
}

static uint64_t counter_of(unsigned worker)
{
	return *(const uint64_t *)(counters + worker * stride);
}

static void control_sharing_run(const struct order *o)
{
	stride = param(o, "apart", 0) ? FAR : NEAR;
	times = o->ops / CPUS;
	errno = EINVAL;
	if (team_cpus() < CPUS)
		fail("two CPUs");
	region_begin();
	team_start(CPUS, count);
	team_join();
	region_end();
	sig("calls", counter_of(0) + counter_of(1));
	sig("failed", o->ops - counter_of(0) - counter_of(1));
}

WORKLOAD("control-sharing", control_sharing_run);
