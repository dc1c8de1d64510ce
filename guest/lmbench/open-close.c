/* SPDX-License-Identifier: MIT */
/* Open an existing file for reading and close it. */
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static const char *path;

static int op(void)
{
	long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);

	return fd < 0 || syscall(SYS_close, fd);
}

static void open_close_run(const struct order *o)
{
	path = scratch();
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
	if (fd < 0 || close(fd))
		fail("create");
	measure(o, 100, op, "calls");
}

WORKLOAD("open-close", open_close_run);
