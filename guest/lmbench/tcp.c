/* SPDX-License-Identifier: MIT */
/* One byte there and back between two processes over one TCP connection of loopback. */
#include "loopback.h"
#include "round-trip.h"

static void tcp_run(const struct order *o)
{
	int ends[2];

	loopback_tcp(ends);
	round_trips(o, (struct round_trip){ ends[0], ends[0], ends[1], ends[1] });
}

WORKLOAD("tcp", tcp_run);
