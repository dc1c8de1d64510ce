/* SPDX-License-Identifier: MIT */
/* A table of files, a file, a directory, a pipe, a pair of sockets. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "scale.h"

enum { PATH_BYTES = 320 };

static char directory[PATH_BYTES - 32], path[PATH_BYTES], names[SCALE_MAX][PATH_BYTES];
static int file, ends[2];

static int create(const char *name)
{
	return (int)syscall(SYS_open, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
}

/* Of threads all names are in one directory, of processes each is in its own. */
int scale_prepare_file(unsigned worker)
{
	snprintf(directory, sizeof(directory), "%s/%u", scratch_directory(), worker);
	if (mkdir(directory, 0700))
		return -1;
	snprintf(path, sizeof(path), "%s/file", directory);
	for (unsigned i = 0; i < SCALE_MAX; i++)
		snprintf(names[i], sizeof(names[i]), "%s/new-%u", directory, i);
	file = create(path);
	return file < 0;
}

int scale_dup(unsigned worker)
{
	long copy = syscall(SYS_dup, file);

	(void)worker;
	return copy < 0 || syscall(SYS_close, copy);
}

int scale_open(unsigned worker)
{
	long opened = syscall(SYS_open, path, O_RDONLY | O_CLOEXEC);

	(void)worker;
	return opened < 0 || syscall(SYS_close, opened);
}

int scale_create(unsigned worker)
{
	int created = create(names[worker]);

	return created < 0 || syscall(SYS_close, created) || syscall(SYS_unlink, names[worker]);
}

int scale_prepare_pipe(unsigned worker)
{
	(void)worker;
	return pipe2(ends, O_CLOEXEC);
}

/* Both ends send and receive: a byte goes to the other one, and is read there. */
int scale_prepare_unix(unsigned worker)
{
	int both[2];

	(void)worker;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both))
		return -1;
	ends[0] = both[0];
	ends[1] = both[1];
	return 0;
}

int scale_byte(unsigned worker)
{
	char byte = 1;

	(void)worker;
	return syscall(SYS_write, ends[1], &byte, 1) != 1 || syscall(SYS_read, ends[0], &byte, 1) != 1;
}
