/* SPDX-License-Identifier: MIT */
/*
 * Control: an operation of 1000 turns of a loop in user mode, and as many more as the environment's
 * KTAX_PLANTED says: 50 is 5 % more. It is what a Side of a timed comparison plants with
 * `env KTAX_PLANTED=50` before the command. The signature does not know: it must not differ.
 */
#include <stdlib.h>

#include "ktax.h"

static unsigned long turns;

static int operation(void)
{
	for (unsigned long left = turns; left; left--)
		__asm__ volatile("");
	return 0;
}

static void control_planted_run(const struct order *o)
{
	const char *planted = getenv("KTAX_PLANTED");

	turns = 1000 + (planted ? strtoul(planted, NULL, 10) : 0);
	measure(o, 10, operation, "calls");
}

WORKLOAD("control-planted", control_planted_run);
