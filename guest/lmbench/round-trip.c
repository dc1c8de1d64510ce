/* SPDX-License-Identifier: MIT */
#include "round-trip.h"

#include <sys/syscall.h>
#include <unistd.h>

static struct round_trip ends;

static int op(void)
{
	char byte;

	return syscall(SYS_write, ends.to, "", 1) != 1 || syscall(SYS_read, ends.from, &byte, 1) != 1;
}

void round_trips(const struct order *o, struct round_trip of)
{
	ends = of;
	pid_t echo = child_echo(ends.in, ends.out, ends.to);
	/* So many until the scheduler settles: neither process preempts the other at its wakeup. */
	measure(o, 1500, op, "round-trips");
	close(ends.to);
	sig("children", child_succeeded(echo));
}
