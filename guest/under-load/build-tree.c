/* SPDX-License-Identifier: MIT */
/* The headers that cc1 reads: generated, so that no source tree is needed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "build.h"
#include "random.h"

const char *const build_include[SEARCHED] = {
	"include/0/", "include/1/", "include/2/", "include/3/",
};

static const char *header(uint64_t n)
{
	static char name[PATH_BYTES];

	return build_path(name, build_include[SEARCHED - 1], n, ".h");
}

void build_tree(uint64_t headers)
{
	static char text[HEADER_KIB << 10];

	if (mkdir("include", 0700) || mkdir("out", 0700))
		fail("mkdir");
	for (int i = 0; i < SEARCHED; i++)
		if (mkdir(build_include[i], 0700))
			fail("mkdir");
	for (uint64_t n = 0; n < headers; n++) {
		uint64_t seed = n, kib = 1 + splitmix64(&seed) % HEADER_KIB;
		build_fill(text, kib << 10, seed);
		if (!build_write(header(n), text, kib << 10))
			fail("header");
	}
}

/* Whether the file, of less than HEADER_KIB + 1 KiB, has a page in memory. */
static bool is_cached(int fd, size_t size)
{
	unsigned char page[HEADER_KIB / 4 + 1] = { 0 };
	void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	bool cached = map == MAP_FAILED || mincore(map, size, page);

	for (size_t i = 0; i < sizeof(page); i++)
		cached |= page[i] & 1;
	munmap(map, size);
	return cached;
}

/* A guest is alone on its machine; elsewhere only our own files may go. */
void build_cold(uint64_t headers)
{
	int fd;

	if (in_guest) {
		fd = open("/proc/sys/vm/drop_caches", O_WRONLY);
		if (fd < 0 || write(fd, "3", 1) != 1 || close(fd))
			fail("drop_caches");
		return;
	}
	for (uint64_t n = 0; n < headers; n++) {
		fd = open(header(n), O_RDONLY);
		if (fd < 0 || fsync(fd))
			fail("fsync");
		errno = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		if (errno)
			fail("fadvise");
		errno = EBUSY;
		if (is_cached(fd, lseek(fd, 0, SEEK_END)))
			fail("headers that stay in the page cache: TMPDIR must be on a disk");
		close(fd);
	}
}
