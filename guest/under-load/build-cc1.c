/* SPDX-License-Identifier: MIT */
/* The compiler of the job: headers in, memory, work of its own, a listing out. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "build.h"

static char text[LISTING]; /* a header at a time, then the listing */

/* As an allocator does it: a stretch, stores to it, the next stretch. None is a huge page. */
uint64_t build_grow(uint64_t pages)
{
	const uint64_t stretch = 32;
	uint64_t touched = 0;

	for (uint64_t n; touched < pages; touched += n) {
		n = pages - touched < stretch ? pages - touched : stretch;
		char *fresh = sbrk(n * PAGE);
		if (fresh == (void *)-1)
			break;
		for (uint64_t i = 0; i < n; i++)
			*(volatile char *)(fresh + i * PAGE) = 1;
	}
	return touched;
}

/* Looked for in one directory after the other. */
static bool read_header(struct evidence *e, uint64_t n)
{
	char name[PATH_BYTES];
	struct stat s;
	int fd = -1;

	for (int i = 0; i < SEARCHED && fd < 0; i++) {
		fd = open(build_path(name, build_include[i], n, ".h"), O_RDONLY);
		e->missed += fd < 0 && errno == ENOENT;
	}
	if (fd < 0 || fstat(fd, &s) || s.st_size > LISTING ||
	    read(fd, text, s.st_size) != s.st_size || close(fd))
		return false;
	e->headers++;
	e->bytes += s.st_size;
	e->hash = build_hash(e->hash, text, s.st_size);
	return true;
}

static int cc1(int argc, char **argv)
{
	char name[PATH_BYTES];

	if (argc != ARGUMENTS)
		return 2;
	uint64_t unit = atoll(argv[UNIT]), headers = atoll(argv[HEADERS]), burn = atoll(argv[BURN]);
	struct evidence did = { .units = 1, .hash = unit };
	for (uint64_t n = 0; n < headers; n++)
		if (!read_header(&did, n))
			return 1;
	did.pages = build_grow(atoll(argv[HEAP]) * CC1_PAGES);
	for (uint64_t kib = 0; kib < burn; kib++)
		did.hash = build_hash(did.hash, text, 1024);
	build_fill(text, LISTING, did.hash);
	*(struct evidence *)text = did;
	return !build_write(build_path(name, "out/", unit, ".s"), text, LISTING);
}
ROLE("cc1", cc1);
