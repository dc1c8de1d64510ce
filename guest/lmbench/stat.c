/* SPDX-License-Identifier: MIT */
/* A path walk to a file of known size and its attributes. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static const char *path;

static int op(void)
{
	struct stat st;

	/* The call that stat() of the C library makes. */
	return syscall(SYS_newfstatat, AT_FDCWD, path, &st, 0) || st.st_size != 1;
}

static void stat_run(const struct order *o)
{
	path = scratch();
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
	if (fd < 0 || write(fd, "x", 1) != 1 || close(fd))
		fail("create");
	measure(o, 100, op, "calls");
}

WORKLOAD("stat", stat_run);
