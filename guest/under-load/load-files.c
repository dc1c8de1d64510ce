/* SPDX-License-Identifier: MIT */
/* The loads that write a file and that read one, over and over. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "load.h"

char load_block[BLOCK];

static uint64_t blocks;

static uint64_t io_prepare(uint64_t mib)
{
	blocks = (mib << 20) / BLOCK;
	return (100 << 20) / BLOCK; /* 100 MiB */
}

/* Zeros; when the file is full it begins anew. */
static void io_run(unsigned process)
{
	int fd = open("zeros", O_CREAT | O_WRONLY | O_APPEND, 0600);

	(void)process;
	while (!ftruncate(fd, 0))
		for (uint64_t n = 0; n < blocks; n++)
			if (write(fd, load_block, BLOCK) != BLOCK || !load_goes_on())
				return;
}

const struct load load_io = { io_prepare, io_run, NULL };

static uint64_t read_prepare(uint64_t mib)
{
	uint64_t per = io_prepare(mib);
	int fd = open("data", O_CREAT | O_WRONLY, 0600);

	for (uint64_t n = 0; n < blocks; n++)
		if (write(fd, load_block, BLOCK) != BLOCK)
			fail("data");
	if (fsync(fd) || close(fd))
		fail("data");
	return per;
}

/* contest's file is as large as memory; this one is let go after each pass, where it has a disk. */
static void read_run(unsigned process)
{
	int fd = open("data", O_RDONLY);

	(void)process;
	while (!lseek(fd, 0, SEEK_SET) && !posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		for (uint64_t n = 0; n < blocks; n++)
			if (read(fd, load_block, BLOCK) != BLOCK || !load_goes_on())
				return;
}

const struct load load_read = { read_prepare, read_run, NULL };
