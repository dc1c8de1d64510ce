/* SPDX-License-Identifier: MIT */
/* Make a process that ends at once, and wait for it. */
#include "ktax.h"

static void fork_exit_run(const struct order *o)
{
	measure(o, 20, child_round, "children");
}

WORKLOAD("fork-exit", fork_exit_run);
