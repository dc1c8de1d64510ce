/* SPDX-License-Identifier: MIT */
/* All names of a directory are read. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static const char *directory;

static int read_names(void)
{
	static char names[32 << 10];
	int fd = open(directory, O_RDONLY | O_DIRECTORY);
	long length;

	if (fd < 0)
		return 1;
	do
		length = syscall(SYS_getdents64, fd, names, sizeof(names));
	while (length > 0);
	return close(fd) || length < 0;
}

static void fs_readdir_run(const struct order *o)
{
	uint64_t files = param(o, "files", 100);
	char path[320];

	directory = scratch_directory();
	for (uint64_t i = 0; i < files; i++) {
		snprintf(path, sizeof(path), "%s/%lu", directory, i);
		int fd = open(path, O_WRONLY | O_CREAT, 0600);
		if (fd < 0)
			fail("open");
		close(fd);
	}
	measure(o, 4, read_names, "directories");
}

WORKLOAD("fs-readdir", fs_readdir_run);
