/* SPDX-License-Identifier: MIT */
/* One byte there and back between two processes over two pipes: two context switches. */
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static int to[2], from[2];

static int op(void)
{
	char byte;

	return syscall(SYS_write, to[1], "", 1) != 1 || syscall(SYS_read, from[0], &byte, 1) != 1;
}

static void pipe_run(const struct order *o)
{
	if (pipe(to) || pipe(from))
		fail("pipe");
	pid_t echo = child_echo(to[0], from[1], to[1]);
	measure(o, 1500, op, "round-trips"); /* the scheduler settles after some 1200 */
	close(to[1]);
	sig("children", child_succeeded(echo));
}

WORKLOAD("pipe", pipe_run);
