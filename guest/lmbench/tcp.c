/* SPDX-License-Identifier: MIT */
/* One byte there and back between two processes over one TCP connection of loopback. */
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"
#include "loopback.h"

static int ends[2];

static int op(void)
{
	char byte;

	return syscall(SYS_write, ends[0], "", 1) != 1 || syscall(SYS_read, ends[0], &byte, 1) != 1;
}

static void tcp_run(const struct order *o)
{
	loopback_tcp(ends);
	pid_t echo = child_echo(ends[1], ends[1], ends[0]);
	/* So many until neither process preempts the other when it is woken. */
	measure(o, 1500, op, "round-trips");
	close(ends[0]);
	sig("children", child_succeeded(echo));
}

WORKLOAD("tcp", tcp_run);
