/* SPDX-License-Identifier: MIT */
/* The attributes of an open file: stat without the path walk. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static int fd;

static int op(void)
{
	struct stat st;

	return syscall(SYS_fstat, fd, &st) || st.st_size != 1;
}

static void fstat_run(const struct order *o)
{
	fd = open(scratch(), O_CREAT | O_EXCL | O_WRONLY, 0600);
	if (fd < 0 || write(fd, "x", 1) != 1)
		fail("create");
	measure(o, 100, op, "calls");
}

WORKLOAD("fstat", fstat_run);
