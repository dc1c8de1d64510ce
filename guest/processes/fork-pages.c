/* SPDX-License-Identifier: MIT */
/* fork-exit beside `pages` pages of the parent, which fork copies and exit drops one by one. */
#include "ktax.h"

static void fork_pages_run(const struct order *o)
{
	uint64_t extra = param(o, "pages", 16);
	char *map = pages(extra);

	for (uint64_t i = 0; i < extra; i++)
		map[i * PAGE] = 1;
	measure(o, 2, child_round, "children");
}

WORKLOAD("fork-pages", fork_pages_run);
