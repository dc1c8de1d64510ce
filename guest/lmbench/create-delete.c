/* SPDX-License-Identifier: MIT */
/* Create a file, write `bytes` to it at once, close it, delete it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static const char *path;
static char data[65536];
static uint64_t bytes, written;

static int op(void)
{
	long fd = syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_EXCL | O_WRONLY, 0600);
	long n = fd >= 0 && bytes ? syscall(SYS_write, fd, data, bytes) : 0;

	if (n > 0)
		written += n;
	return fd < 0 || syscall(SYS_close, fd) ||
	       syscall(SYS_unlinkat, AT_FDCWD, path, 0) || (uint64_t)n != bytes;
}

static void create_delete_run(const struct order *o)
{
	const uint64_t warm_up = 100;

	bytes = param(o, "bytes", 0);
	errno = EFBIG;
	if (bytes > sizeof(data))
		fail("bytes");
	path = scratch();
	memset(data, 'x', sizeof(data));
	measure(o, warm_up, op, "files");
	sig("bytes", written - warm_up * bytes);
}

WORKLOAD("create-delete", create_delete_run);
