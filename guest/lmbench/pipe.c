/* SPDX-License-Identifier: MIT */
/* One byte there and back between two processes over two pipes: two context switches. */
#include <unistd.h>

#include "round-trip.h"

static void pipe_run(const struct order *o)
{
	int to[2], from[2];

	if (pipe(to) || pipe(from))
		fail("pipe");
	round_trips(o, (struct round_trip){ to[1], from[0], to[0], from[1] });
}

WORKLOAD("pipe", pipe_run);
