/* SPDX-License-Identifier: MIT */
/* A process among others: switched, signalled, made, asked for its group, told the time. */
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "micro.h"

static int to[2], from[2];
static pid_t self, helper;
static volatile uint64_t handled;

static int helped(void)
{
	if (pipe(to) || pipe(from))
		return 1;
	helper = child_echo(to[0], from[1], to[1]);
	return 0;
}

static int there_and_back(void)
{
	char byte;

	return syscall(SYS_write, to[1], "", 1) != 1 || syscall(SYS_read, from[0], &byte, 1) != 1;
}

static void end_helper(void)
{
	close(to[1]);
	sig("children", child_succeeded(helper));
}

static int yield(void)
{
	return syscall(SYS_sched_yield) != 0;
}

static void handler(int number)
{
	(void)number;
	handled++;
}

static int handling(void)
{
	const struct sigaction action = { .sa_handler = handler };

	self = getpid();
	return sigaction(SIGUSR1, &action, NULL);
}

static int signal_self(void)
{
	uint64_t before = handled;

	return syscall(SYS_tgkill, self, self, SIGUSR1) || handled != before + 1;
}

static int getpgid_self(void)
{
	return syscall(SYS_getpgid, 0) < 0;
}

/* By the C library, so without a call where the kernel lets programs read the clock themselves. */
static int now(void)
{
	struct timespec time;

	return clock_gettime(CLOCK_MONOTONIC, &time);
}

static void micro_tasks_run(const struct order *o)
{
	static const struct micro calls[] = {
		{ "context-switch1", there_and_back, helped, end_helper },
		{ "sched-yield", yield, NULL, NULL },
		{ "signal1", signal_self, handling, NULL },
		{ "getpgid", getpgid_self, NULL, NULL },
		{ "fork1", child_round, NULL, NULL },
		{ "clock-gettime", now, NULL, NULL },
	};

	MICRO(o, 100, calls);
}

WORKLOAD("micro-tasks", micro_tasks_run);
