/* SPDX-License-Identifier: MIT */
/* What lists a directory: one of our own, since those of a machine are unlike another's. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jobs.h"

enum { FILES = 1000 };

static char entries[32768]; /* what the C library asks for at once */

static const struct dirent64 *entry(long at)
{
	return (const struct dirent64 *)(entries + at);
}

void job_digits(char *end, unsigned number)
{
	for (unsigned i = 0; i < 5; i++, number /= 10)
		*--end = '0' + number % 10;
}

void list_prepare(void)
{
	char name[] = "list/file-00000";

	if (mkdir("list", 0700))
		fail("mkdir");
	for (unsigned i = 0; i < FILES; i++) {
		job_digits(name + sizeof(name) - 1, i);
		int fd = creat(name, 0600);
		if (fd < 0 || close(fd))
			fail("creat");
	}
}

/* Ten thousand entries, from the start again after the last. */
const char *dir_rtns_1(void)
{
	unsigned seen = 0;
	int fd = open("list", O_RDONLY | O_DIRECTORY);

	if (fd < 0)
		return "open";
	while (seen < 10000) {
		long filled = syscall(SYS_getdents64, fd, entries, sizeof(entries));
		if (filled < 0)
			return "getdents";
		if (!filled && syscall(SYS_lseek, fd, 0, SEEK_SET))
			return "lseek";
		for (long at = 0; at < filled && seen < 10000; at += entry(at)->d_reclen)
			seen++;
	}
	*job_done += seen;
	return close(fd) ? "close" : NULL;
}

/* What `ls -l` asks for: the names, and the status of each. Fails where one is missing. */
static int ls(int argc, char **argv)
{
	unsigned files = 0;
	int fd = argc == 2 ? open(argv[1], O_RDONLY | O_DIRECTORY) : -1;
	long filled;
	struct stat s;

	while ((filled = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0)
		for (long at = 0; at < filled; at += entry(at)->d_reclen)
			if (entry(at)->d_name[0] != '.')
				files += !syscall(SYS_newfstatat, fd, entry(at)->d_name, &s,
						  AT_SYMLINK_NOFOLLOW);
	if (files == FILES)
		return 0;
	return errno ? errno : ENODATA;
}
ROLE("jobs-ls", ls);
