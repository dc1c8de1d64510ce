/* SPDX-License-Identifier: MIT */
/* Operations on files of a file system, which --file-system chooses. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

/* A block is appended to a file; with fsync=1 it is written to the device each time. */
static int file;
static bool synced;

static int append(void)
{
	static const char block[PAGE] = { 1 };

	if (write(file, block, sizeof(block)) != sizeof(block))
		return 1;
	return synced && fsync(file);
}

static void fs_append_run(const struct order *o)
{
	synced = param(o, "fsync", 0);
	file = open(scratch(), O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (file < 0)
		fail("open");
	measure(o, 4, append, "blocks");
	close(file);
}

WORKLOAD("fs-append", fs_append_run);

/* All names of a directory are read. */
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

/* A file of a directory gets another name, and its own again. */
static char other[320];
static const char *one;

static int there_and_back(void)
{
	return rename(one, other) || rename(other, one);
}

static void fs_rename_run(const struct order *o)
{
	one = scratch();
	snprintf(other, sizeof(other), "%s/other", scratch_directory());
	int fd = open(one, O_WRONLY | O_CREAT, 0600);
	if (fd < 0)
		fail("open");
	close(fd);
	measure(o, 4, there_and_back, "renames");
}

WORKLOAD("fs-rename", fs_rename_run);

/* Pages are written to a file, which is then cut to nothing. */
enum { PAGES = 16 };

static int fill_and_cut(void)
{
	static const char pages[PAGES * PAGE] = { 1 };

	if (pwrite(file, pages, sizeof(pages), 0) != sizeof(pages))
		return 1;
	return ftruncate(file, 0);
}

static void fs_truncate_run(const struct order *o)
{
	file = open(scratch(), O_WRONLY | O_CREAT, 0600);
	if (file < 0)
		fail("open");
	measure(o, 4, fill_and_cut, "files");
	close(file);
}

WORKLOAD("fs-truncate", fs_truncate_run);
