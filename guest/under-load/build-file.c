/* SPDX-License-Identifier: MIT */
/* What the programs of the job do with files and their bytes, without stdio. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "build.h"
#include "random.h"

const char *build_path(char *to, const char *before, uint64_t n, const char *after)
{
	char digits[21];
	char *at = digits + sizeof(digits) - 1;

	*at = 0;
	do
		*--at = '0' + n % 10;
	while (n /= 10);
	return strcat(strcat(strcpy(to, before), at), after);
}

/* A page at a time, as a C library's buffered output comes. */
bool build_write(const char *name, const void *from, size_t size)
{
	int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	bool done = fd >= 0;

	for (size_t at = 0; done && at < size; at += PAGE) {
		ssize_t piece = size - at < PAGE ? size - at : PAGE;
		done = write(fd, (const char *)from + at, piece) == piece;
	}
	return fd >= 0 && !close(fd) && done;
}

bool build_read(const char *name, void *to, size_t size)
{
	int fd = open(name, O_RDONLY);

	return fd >= 0 && read(fd, to, size) == (ssize_t)size && !close(fd);
}

void build_fill(void *to, size_t size, uint64_t seed)
{
	for (size_t at = 0; at + sizeof(seed) <= size; at += sizeof(seed)) {
		uint64_t word = splitmix64(&seed);
		memcpy((char *)to + at, &word, sizeof(word));
	}
}

/* FNV-1a: a few instructions for each byte, as a scanner of text has */
uint64_t build_hash(uint64_t hash, const void *from, size_t size)
{
	const unsigned char *byte = from;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ byte[i]) * 0x100000001b3;
	return hash;
}
