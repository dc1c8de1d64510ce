/* SPDX-License-Identifier: MIT */
/* Descriptors asked whether they are ready, and one that only counts. */
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "micro.h"

enum { FDS = 128 };

static int fd;
static struct pollfd polled[FDS];
static long fds;

static int poll_all(void)
{
	return syscall(SYS_poll, polled, fds, 0) != fds;
}

static int poll_of(long n)
{
	fd = memory_file(0);
	for (fds = 0; fds < n; fds++) {
		polled[fds] = (struct pollfd){ .fd = dup(fd), .events = POLLOUT };
		if (polled[fds].fd < 0)
			return 1;
	}
	return 0;
}

static int poll_of_one(void)
{
	return poll_of(1);
}

static int poll_of_many(void)
{
	return poll_of(FDS);
}

static int counter(void)
{
	fd = eventfd(0, 0);
	return fd < 0;
}

static int up_and_down(void)
{
	uint64_t one = 1;

	return syscall(SYS_write, fd, &one, sizeof(one)) != sizeof(one) ||
	       syscall(SYS_read, fd, &one, sizeof(one)) != sizeof(one) || one != 1;
}

static void micro_events_run(const struct order *o)
{
	static const struct micro calls[] = {
		{ "poll1", poll_all, poll_of_one, NULL },
		{ "poll2", poll_all, poll_of_many, NULL },
		{ "eventfd", up_and_down, counter, NULL },
	};

	MICRO(o, 100, calls);
}

WORKLOAD("micro-events", micro_events_run);
