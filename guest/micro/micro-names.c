/* SPDX-License-Identifier: MIT */
/* Names of files: opened, removed, listed. */
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "micro.h"

enum { NAMES = 32 };

static const char *path;
static int flags;
static long directory, bytes;

static int open_close(void)
{
	long file = syscall(SYS_openat, AT_FDCWD, path, flags, 0600);

	return file < 0 || syscall(SYS_close, file);
}

static int open_close_unlink(void)
{
	return open_close() || syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

static int new_name(void)
{
	path = scratch();
	flags = O_RDWR | O_CREAT;
	return 0;
}

static int old_name(void)
{
	if (new_name() || open_close())
		return 1;
	flags = O_RDWR;
	return 0;
}

/* From the beginning; all names fit. */
static long list(void)
{
	char entries[4096];

	if (syscall(SYS_lseek, directory, 0, SEEK_SET))
		return -1;
	return syscall(SYS_getdents64, directory, entries, sizeof(entries));
}

static int list_again(void)
{
	return list() != bytes;
}

static int full_directory(void)
{
	char name[] = "00";

	directory = open(scratch_directory(), O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < NAMES; i++) {
		name[0] = '0' + i / 10;
		name[1] = '0' + i % 10;
		int file = openat(directory, name, O_CREAT | O_EXCL, 0600);
		if (file < 0 || close(file))
			return 1;
	}
	bytes = list();
	/* A name of two takes 24 bytes, whatever the file system, and so do "." and "..". */
	return bytes != 24 * (NAMES + 2);
}

static void micro_names_run(const struct order *o)
{
	static const struct micro calls[] = {
		{ "open1", open_close, old_name, NULL },
		{ "unlink1", open_close_unlink, new_name, NULL },
		{ "getdents", list_again, full_directory, NULL },
	};

	MICRO(o, 100, calls);
}

WORKLOAD("micro-names", micro_names_run);
