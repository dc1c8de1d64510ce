/* SPDX-License-Identifier: MIT */
/* A file of a directory gets another name, and its own again. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "ktax.h"

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
