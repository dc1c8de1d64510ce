/* SPDX-License-Identifier: MIT */
/*
 * fork beside `pages` pages of the parent, which fork copies and exit drops one by one. One child
 * after the other by default. With mode=fork the Region has only the forks, of children that stay
 * until it is over; with mode=live it has their ends too, after the last fork. With mode=touch each
 * child writes to all pages before it ends.
 */
#include <unistd.h>

#include "backing.h"
#include "crowd.h"
#include "ktax.h"

enum mode { FORK_EXIT_WAIT, FORK, LIVE, TOUCH };

static int touching_round(void)
{
	pid_t pid = child();

	if (!pid) {
		backing_touch();
		_exit(0);
	}
	return pid < 0 || !child_succeeded(pid);
}

static void all_at_once(const struct order *o, enum mode mode)
{
	const uint64_t warm_up = 2;
	uint64_t failed;

	crowd_of(warm_up + o->ops);
	failed = crowd_begin(warm_up);
	if (failed + crowd_end(warm_up))
		fail("warm-up");
	region_begin();
	failed = crowd_begin(o->ops);
	if (mode == LIVE)
		failed += crowd_end(o->ops);
	region_end();
	if (mode == FORK)
		failed += crowd_end(o->ops);
	sig("children", o->ops - failed);
	sig("failed", failed);
}

static void fork_pages_run(const struct order *o)
{
	enum mode mode = param(o, "mode", FORK_EXIT_WAIT);
	enum backing kind = param(o, "backing", ANONYMOUS);
	uint64_t n = param(o, "pages", 16), faults = backing_fill(kind, n);
	int huge = kind == THP || kind == HUGETLB || kind == SHARED_HUGETLB;
	uint64_t wanted = huge ? (n + 511) / 512 : n;

	if (mode == FORK_EXIT_WAIT || mode == TOUCH)
		measure(o, 2, mode == TOUCH ? touching_round : child_round, "children");
	else
		all_at_once(o, mode);
	value("touch-faults", faults);
	sig("faults-amiss", faults > wanted ? faults - wanted : wanted - faults);
}

WORKLOAD("fork-pages", fork_pages_run);
