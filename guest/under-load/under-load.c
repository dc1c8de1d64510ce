/* SPDX-License-Identifier: MIT */
/*
 * The job of buildlike while one load runs, and how far the load came in that time: a kernel that
 * starves the load would otherwise look fast. The load is at work before the Region begins.
 */
#include <errno.h>
#include <sys/resource.h>

#include "load.h"

enum { NONE_COLD = 1 };

static const struct load *const loads[] = {
	NULL, NULL, /* none, none-cold */
	&load_process, &load_ctar, &load_xtar, &load_io, &load_read, &load_list, &load_mem,
};

static uint64_t children_us(void)
{
	struct rusage used;

	getrusage(RUSAGE_CHILDREN, &used);
	return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000ull +
	       used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}

static void under_load_run(const struct order *o)
{
	uint64_t kind = param(o, "load", 0), mib = param(o, "mib", 8), per = 0;

	errno = EINVAL;
	if (kind >= sizeof(loads) / sizeof(*loads) || !mib)
		fail("load");
	const struct load *load = loads[kind];
	build_prepare(o);
	load_share();
	if (kind == NONE_COLD)
		build_cold(build.headers);
	if (load) {
		per = load->prepare(mib);
		load_start(load, param(o, "lead-ms", 0));
	}
	uint64_t job_us = children_us();
	struct load_seen before = load_look();
	region_begin();
	bool made = build_run(o->ops);
	region_end();
	struct load_seen after = load_look();
	job_us = children_us() - job_us;
	/* One that is starved, or waits for a disk, has a count of zero; it goes on, or it is broken. */
	bool moved = load && (after.count > before.count || (!counted && load_moves(before.count)));
	load_stop();
	if (made && load && !moved)
		fail("the load did no work");
	build_say(made);
	sig("load-moved", moved);
	value("load-count", after.count - before.count);
	value("load-per", per);
	if (counted)
		return;
	value("load-ns", after.nanoseconds - before.nanoseconds);
	value("load-cpu-us", after.cpu_us - before.cpu_us);
	value("job-cpu-us", job_us);
}

WORKLOAD("under-load", under_load_run);
