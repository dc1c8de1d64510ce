/* SPDX-License-Identifier: MIT */
/* A stream through a pair of Unix sockets. */
#include <sys/socket.h>

#include "bandwidth.h"

static void bw_unix_run(const struct order *o)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		fail("socketpair");
	stream(o, ends[0], ends[1]);
}

WORKLOAD("bw-unix", bw_unix_run);
