/* SPDX-License-Identifier: MIT */
/* One byte there and back between two processes over a stream socket pair. */
#include <sys/socket.h>

#include "round-trip.h"

static void af_unix_run(const struct order *o)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		fail("socketpair");
	round_trips(o, (struct round_trip){ ends[0], ends[0], ends[1], ends[1] });
}

WORKLOAD("af-unix", af_unix_run);
