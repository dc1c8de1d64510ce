/* SPDX-License-Identifier: MIT */
/* One byte from /dev/zero: the read path without a file system below it. */
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static int fd;

static int op(void)
{
	char byte;

	return syscall(SYS_read, fd, &byte, 1) != 1;
}

static void read_run(const struct order *o)
{
	fd = open("/dev/zero", O_RDONLY);
	if (fd < 0)
		fail("open /dev/zero");
	measure(o, 1000, op, "calls");
}

WORKLOAD("read-1", read_run);
