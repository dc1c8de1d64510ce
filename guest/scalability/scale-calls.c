/* SPDX-License-Identifier: MIT */
/* All calls, and those of tasks: a call that does nothing, futexes, forks, signals. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "scale.h"

static int word;
static __thread volatile sig_atomic_t caught;

static int nothing(unsigned worker)
{
	(void)worker;
	return syscall(SYS_getppid) < 0;
}

/* The kernel finds under its lock that the word is not what was expected. */
static int wait_in_vain(unsigned worker)
{
	(void)worker;
	long waited = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);

	return waited != -1 || errno != EAGAIN;
}

static int fork_once(unsigned worker)
{
	(void)worker;
	return child_round();
}

static void handle(int number)
{
	(void)number;
	caught++;
}

static int prepare_signals(unsigned worker)
{
	const struct sigaction action = { .sa_handler = handle };

	(void)worker;
	return sigaction(SIGUSR1, &action, NULL);
}

static int catch_one(unsigned worker)
{
	sig_atomic_t before = caught;

	(void)worker;
	if (syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), SIGUSR1))
		return -1;
	return caught != before + 1;
}

const struct scale_call scale_calls[] = {
	{ "getppid", NULL, nothing },
	{ "page-fault", scale_prepare_faults, scale_fault },
	{ "mmap", NULL, scale_map },
	{ "dup", scale_prepare_file, scale_dup },
	{ "open", scale_prepare_file, scale_open },
	{ "create", scale_prepare_file, scale_create },
	{ "pipe", scale_prepare_pipe, scale_byte },
	{ "unix", scale_prepare_unix, scale_byte },
	{ "futex", NULL, wait_in_vain },
	{ "fork", NULL, fork_once },
	{ "signal", prepare_signals, catch_one },
};

const unsigned scale_calls_count = sizeof(scale_calls) / sizeof(scale_calls[0]);
