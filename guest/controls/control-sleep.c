/* SPDX-License-Identifier: MIT */
/* Control: sleeps, so that a Region has only what the kernel does by itself. */
#include <time.h>

#include "ktax.h"

static int sleep_a_tenth(void)
{
	return nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
}

static void control_sleep_run(const struct order *o)
{
	measure(o, 1, sleep_a_tenth, "sleeps");
}

WORKLOAD("control-sleep", control_sleep_run);
