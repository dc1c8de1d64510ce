/* SPDX-License-Identifier: MIT */
/* Ask with select() whether `fds` TCP descriptors can be written; all of them can. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static fd_set all;
static int highest;
static uint64_t fds;

static int op(void)
{
	fd_set writable = all;
	struct timeval now = { 0 };

	return syscall(SYS_select, highest + 1, NULL, &writable, NULL, &now) != (long)fds;
}

/* One end of a connection over loopback; the other end stays open and idle. */
static int connected(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (listener < 0 || fd < 0)
		fail("socket");
	if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &length))
		fail("listen");
	if (connect(fd, (struct sockaddr *)&address, length))
		fail("connect");
	if (accept(listener, NULL, NULL) < 0)
		fail("accept");
	return fd;
}

static void select_tcp_run(const struct order *o)
{
	int fd = connected();

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

WORKLOAD("select-tcp", select_tcp_run);
