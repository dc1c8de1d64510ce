/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "cached.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ktax.h"

int cached_file(uint64_t n, uint64_t cached)
{
	int fd = memfd_create("ktax", 0);

	if (fd < 0 || ftruncate(fd, n * PAGE))
		fail("memfd_create");
	char *map = mmap(NULL, cached * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		fail("mmap");
	/* By stores and not by write(), which could take large folios whatever we want. */
	if (madvise(map, cached * PAGE, MADV_NOHUGEPAGE) && errno != EINVAL)
		fail("madvise");
	for (uint64_t i = 0; i < cached; i++)
		map[i * PAGE] = 1;
	munmap(map, cached * PAGE);
	return fd;
}
