/* SPDX-License-Identifier: MIT */
/* A file in memory by its descriptor: doubled, rewound, locked, given room. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "micro.h"

enum { STEP = 8192, STEPS = 128 };

static int fd;
static uint64_t step;

static int file(void)
{
	fd = memory_file(0);
	return fd < 0;
}

static int dup_close(void)
{
	long copy = syscall(SYS_dup, fd);

	return copy < 0 || syscall(SYS_close, copy);
}

static int seek(void)
{
	return syscall(SYS_lseek, fd, 0, SEEK_SET) != 0;
}

/* Two descriptors of it: from then on the kernel locks its position. */
static int shared_file(void)
{
	return file() || dup(fd) < 0;
}

static int lock_unlock(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_len = 1 };
	struct flock unlock = { .l_type = F_UNLCK, .l_len = 1 };

	return syscall(SYS_fcntl, fd, F_SETLKW, &lock) || syscall(SYS_fcntl, fd, F_SETLKW, &unlock);
}

/* 8 KiB more; nothing again at 1 MiB. */
static int allocate(void)
{
	if (syscall(SYS_fallocate, fd, 0, STEP * (step % STEPS), STEP))
		return 1;
	return ++step % STEPS == 0 && syscall(SYS_ftruncate, fd, 0);
}

static void micro_files_run(const struct order *o)
{
	static const struct micro calls[] = {
		{ "dup", dup_close, file, NULL },
		{ "lseek1", seek, file, NULL },
		{ "lseek2", seek, shared_file, NULL },
		{ "lock1", lock_unlock, file, NULL },
		{ "fallocate1", allocate, file, NULL },
	};

	MICRO(o, STEPS, calls);
}

WORKLOAD("micro-files", micro_files_run);
