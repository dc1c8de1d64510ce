/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "micro.h"

void micro(const struct order *o, uint64_t warm_up, const struct micro *calls, size_t n)
{
	const uint64_t index = param(o, "call", 0);

	errno = EINVAL;
	if (index >= n)
		fail("call");
	const struct micro *call = &calls[index];
	if (call->prepare && call->prepare())
		fail(call->name);
	measure(o, warm_up, call->op, "calls");
	if (call->finish)
		call->finish();
}

int memory_file(uint64_t bytes)
{
	char path[32];
	int fd = memfd_create("ktax", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, bytes))
		return -1;
	/* Only what was opened has a position as files have it, that may have to be locked. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

int small_pages(void)
{
	return prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}
