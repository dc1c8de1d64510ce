/* SPDX-License-Identifier: MIT */
/*
 * The resources that the Region used: of this process and of the children that it has waited for.
 * Under icount there is no usable clock, because time is the number of instructions.
 */
#include <sys/resource.h>

#include "guest.h"
#include "nanoseconds.h"

struct usage {
	uint64_t nanoseconds;
	struct rusage self, children;
};

static struct usage before, after;
static bool left;

static void look(struct usage *u)
{
	getrusage(RUSAGE_SELF, &u->self);
	getrusage(RUSAGE_CHILDREN, &u->children);
}

void region_enter(void)
{
	region_leave(); /* touches the same pages as the end, so that the first touch is outside */
	if (!counted)
		counters_start();
	look(&before);
	region_start = 0; /* its page may still be shared with a child */
	before.nanoseconds = nanoseconds();
}

void region_leave(void)
{
	after.nanoseconds = nanoseconds();
	if (!counted)
		counters_stop();
	look(&after);
	region_faults = after.self.ru_minflt - before.self.ru_minflt;
	left = true;
}

static uint64_t microseconds(struct timeval t)
{
	return t.tv_sec * 1000000ull + t.tv_usec;
}

#define GREW(FIELD) (after.self.FIELD - before.self.FIELD + \
		     after.children.FIELD - before.children.FIELD)
#define SPENT(FIELD) (microseconds(after.self.FIELD) - microseconds(before.self.FIELD) + \
		      microseconds(after.children.FIELD) - microseconds(before.children.FIELD))

void usage_say(void)
{
	if (!left)
		return;
	value("page-faults", GREW(ru_minflt) + GREW(ru_majflt));
	value("context-switches", GREW(ru_nvcsw) + GREW(ru_nivcsw));
	if (counted)
		return;
	value("nanoseconds", after.nanoseconds - before.nanoseconds);
	value("user-us", SPENT(ru_utime));
	value("system-us", SPENT(ru_stime));
	counters_say();
}
