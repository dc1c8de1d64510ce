/* SPDX-License-Identifier: MIT */
/* Ask with select() whether `fds` descriptors of one file can be written; all of them can. */
#include <errno.h>
#include <fcntl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"
#include "loopback.h"

static fd_set all;
static int highest;
static uint64_t fds;

static int op(void)
{
	fd_set writable = all;
	struct timeval now = { 0 };

	return syscall(SYS_select, highest + 1, NULL, &writable, NULL, &now) != (long)fds;
}

static void select_run(const struct order *o, int fd)
{
	fds = param(o, "fds", 100);
	highest = fd;
	FD_SET(fd, &all);
	for (uint64_t i = 1; i < fds; i++) {
		highest = fcntl(fd, F_DUPFD, highest + 1);
		if (highest < 0)
			fail("dup");
		errno = EMFILE;
		if (highest >= FD_SETSIZE)
			fail("fds");
		FD_SET(highest, &all);
	}
	measure(o, 20, op, "calls");
	sig("fds", fds);
}

static void select_tcp_run(const struct order *o)
{
	int ends[2];

	loopback_tcp(ends); /* the other end stays open and idle */
	select_run(o, ends[0]);
}

static void select_file_run(const struct order *o)
{
	int fd = open(scratch(), O_CREAT | O_EXCL | O_RDWR, 0600);

	if (fd < 0)
		fail("create");
	select_run(o, fd);
}

WORKLOAD("select-tcp", select_tcp_run);
WORKLOAD("select-file", select_file_run);
