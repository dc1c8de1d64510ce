/* SPDX-License-Identifier: MIT */
/* Install a handler for a signal. */
#include <signal.h>

#include "ktax.h"

static void handler(int number)
{
	(void)number;
}

static int op(void)
{
	static const struct sigaction action = { .sa_handler = handler };

	/* Not a bare call: the kernel wants the C library's way back from a handler with it. */
	return sigaction(SIGUSR1, &action, NULL);
}

static void signal_install_run(const struct order *o)
{
	struct sigaction now;

	measure(o, 1000, op, "calls");
	sig("installed", !sigaction(SIGUSR1, NULL, &now) && now.sa_handler == handler);
}

WORKLOAD("signal-install", signal_install_run);
