/* SPDX-License-Identifier: MIT */
/* A block is appended to a file; with fsync=1 it is written to the device each time. */
#include <fcntl.h>
#include <unistd.h>

#include "ktax.h"

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
