/* SPDX-License-Identifier: MIT */
/* One byte there and back between two processes over a stream socket pair. */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static int ends[2];

static int op(void)
{
	char byte;

	return syscall(SYS_write, ends[0], "", 1) != 1 || syscall(SYS_read, ends[0], &byte, 1) != 1;
}

static void af_unix_run(const struct order *o)
{
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		fail("socketpair");
	pid_t echo = child_echo(ends[1], ends[1], ends[0]);
	measure(o, 1500, op, "round-trips"); /* the scheduler settles after some 1200 */
	close(ends[0]);
	sig("children", child_succeeded(echo));
}

WORKLOAD("af-unix", af_unix_run);
