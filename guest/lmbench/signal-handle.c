/* SPDX-License-Identifier: MIT */
/* Send oneself a signal; the handler runs before kill() returns. */
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"
#include "overhead.h"

static volatile uint64_t handled;
static pid_t self;

static void handler(int number)
{
	(void)number;
	handled++;
}

static int op(void)
{
	uint64_t before = handled;

	return syscall(SYS_kill, self, SIGUSR1) || handled != before + 1;
}

static int kill_nothing(void)
{
	return syscall(SYS_kill, self, 0) != 0;
}

static void signal_handle_run(const struct order *o)
{
	const struct sigaction action = { .sa_handler = handler };

	self = getpid();
	if (sigaction(SIGUSR1, &action, NULL))
		fail("sigaction");
	measure(o, 100, op, "signals");
	overhead(o, kill_nothing);
}

WORKLOAD("signal-handle", signal_handle_run);
