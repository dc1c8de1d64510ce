/* SPDX-License-Identifier: MIT */
/* A stream through a pipe. */
#include <unistd.h>

#include "bandwidth.h"

static void bw_pipe_run(const struct order *o)
{
	int ends[2];

	if (pipe(ends))
		fail("pipe");
	stream(o, ends[0], ends[1]);
}

WORKLOAD("bw-pipe", bw_pipe_run);
