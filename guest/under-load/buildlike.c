/* SPDX-License-Identifier: MIT */
/* The job alone: what a kernel costs where many short programs read, compute and write files. */
#include "build.h"

static void buildlike_run(const struct order *o)
{
	build_prepare(o);
	region_begin();
	bool made = build_run(o->ops);
	region_end();
	build_say(made);
}

WORKLOAD("buildlike", buildlike_run);
