/* SPDX-License-Identifier: MIT */
/*
 * Create files of `bytes` bytes, or delete them. A hundred share a directory; directories and
 * names are made before.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

enum { WARM_UP = 400, PER_DIRECTORY = 100, NUMBERS = sizeof("/00000000/00") };

static char data[65536];
static char *names, *next;
static size_t name_size;
static uint64_t bytes;

static int create(void)
{
	const int flags = O_CREAT | O_WRONLY | O_TRUNC; /* creat() */
	long fd = syscall(SYS_openat, AT_FDCWD, next, flags, 0666);
	long n = fd >= 0 && bytes ? syscall(SYS_write, fd, data, bytes) : 0;

	next += name_size;
	return fd < 0 || syscall(SYS_close, fd) || (uint64_t)n != bytes;
}

static int delete(void)
{
	long error = syscall(SYS_unlinkat, AT_FDCWD, next, 0);

	next += name_size;
	return error != 0;
}

static void prepare(const struct order *o)
{
	const uint64_t files = WARM_UP + o->ops;
	const char *directory = scratch_directory();

	bytes = param(o, "bytes", 0);
	errno = EFBIG;
	if (bytes > sizeof(data))
		fail("bytes");
	memset(data, 'x', sizeof(data));
	name_size = strlen(directory) + NUMBERS;
	next = names = pages(files * name_size / PAGE + 1);
	for (uint64_t i = 0; i < files; i++) {
		char *name = names + i * name_size;
		int end = sprintf(name, "%s/%08lu", directory, i / PER_DIRECTORY);
		if (i % PER_DIRECTORY == 0 && mkdir(name, 0700))
			fail("mkdir");
		sprintf(name + end, "/%02lu", i % PER_DIRECTORY);
	}
}

/* What there is of the files of the Region. */
static void look(const struct order *o, const char *files, const char *size)
{
	uint64_t found = 0, held = 0;
	struct stat st;

	for (uint64_t i = WARM_UP; i < WARM_UP + o->ops; i++)
		if (!stat(names + i * name_size, &st)) {
			found++;
			held += st.st_size;
		}
	sig(files, found);
	sig(size, held);
}

static void file_create_run(const struct order *o)
{
	prepare(o);
	measure(o, WARM_UP, create, "created");
	look(o, "files", "bytes");
}

static void file_delete_run(const struct order *o)
{
	prepare(o);
	for (uint64_t i = 0; i < WARM_UP + o->ops; i++)
		if (create())
			fail("create");
	look(o, "files", "bytes");
	next = names;
	measure(o, WARM_UP, delete, "deleted");
	look(o, "files-left", "bytes-left");
}

WORKLOAD("file-create", file_create_run);
WORKLOAD("file-delete", file_delete_run);
