/* SPDX-License-Identifier: MIT */
/*
 * Jobs that make names and take them away. All users work in one directory, as they do in the
 * original: its lock is part of the load.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jobs.h"

const char *creat_clo(void)
{
	char name[] = "creat-00000";

	job_digits(name + sizeof(name) - 1, user_number);
	for (unsigned i = 0; i < 1000; i++) {
		long fd = syscall(SYS_creat, name, 0777);
		if (fd < 0 || syscall(SYS_close, fd))
			return "creat";
		++*job_done;
	}
	return unlink(name) ? "unlink" : NULL;
}

/* A file and seven more links to it, each of which goes and comes again nine times. */
const char *link_test(void)
{
	enum { LINKS = 7, ROUNDS = 9 };
	char file[] = "link-00000", name[LINKS][sizeof("link-00000-0")];

	job_digits(file + sizeof(file) - 1, user_number);
	int fd = creat(file, 0777);
	if (fd < 0 || close(fd))
		return "creat";
	for (unsigned i = 0; i < LINKS; i++) {
		const char suffix[] = { '-', '0' + i, 0 };
		strcat(strcpy(name[i], file), suffix);
		if (syscall(SYS_link, file, name[i]))
			return "link";
		++*job_done;
	}
	for (unsigned i = 0; i < LINKS * ROUNDS; i++) {
		if (syscall(SYS_unlink, name[i % LINKS]))
			return "unlink";
		if (syscall(SYS_link, file, name[i % LINKS]))
			return "link";
		++*job_done;
	}
	for (unsigned i = 0; i < LINKS; i++)
		if (syscall(SYS_unlink, name[i]))
			return "unlink";
	return unlink(file) ? "unlink" : NULL;
}
