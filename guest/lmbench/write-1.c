/* SPDX-License-Identifier: MIT */
/* One byte to /dev/null: the write path without a file system below it. */
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static int fd;

static int op(void)
{
	return syscall(SYS_write, fd, "", 1) != 1;
}

static void write_run(const struct order *o)
{
	fd = open("/dev/null", O_WRONLY);
	if (fd < 0)
		fail("open /dev/null");
	measure(o, 1000, op, "calls");
}

WORKLOAD("write-1", write_run);
