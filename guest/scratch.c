/* SPDX-License-Identifier: MIT */
/*
 * The directory that a workload may write to. Its path is in shared memory: this process removes it
 * at its end, or the janitor does if the process was killed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest.h"

#define NAME "%s/ktax-%016lx"

enum { PATH_BYTES = 256 };

static char *directory; /* its path; empty while there is none */

void janitor_share(void)
{
	static char own[PATH_BYTES];
	static int failure;

	directory = janitor_shared(own, sizeof(own));
	keys_share();
	wire_share(janitor_shared(&failure, sizeof(failure)));
}

const char *scratch_directory(void)
{
	const char *parent = in_guest ? NULL : getenv("TMPDIR");

	if (directory[0])
		return directory;
	errno = ENAMETOOLONG;
	if (!parent || parent[0] != '/')
		parent = "/tmp";
	if (strlen(parent) + sizeof("/ktax-") + 2 * sizeof(uint64_t) > PATH_BYTES)
		fail("TMPDIR");
	/* A random name has another hash in each Run, so the guest has a fixed one. */
	uint64_t random = 0;
	if (!in_guest && getrandom(&random, sizeof(random), 0) != sizeof(random))
		fail("getrandom");
	/* The path is known before the directory exists: a kill in between leaves nothing. */
	snprintf(directory, PATH_BYTES, NAME, parent, random);
	if (mkdir(directory, 0700)) {
		directory[0] = 0;
		fail(parent);
	}
	return directory;
}

const char *scratch(void)
{
	static char file[PATH_BYTES + sizeof("/file")];

	return strcat(strcpy(file, scratch_directory()), "/file");
}

static int discard(const char *path, const struct stat *s, int type, struct FTW *at)
{
	(void)s, (void)type, (void)at;
	return remove(path) && errno != ENOENT;
}

void before_end(void)
{
	if (!directory)
		return;
	keys_remove();
	/* If a process still makes files, something stays, and the janitor tries again. */
	if (directory[0] && !nftw(directory, discard, 16, FTW_DEPTH | FTW_PHYS))
		directory[0] = 0;
}

/* A guest's directory always has the same name. */
void scratch_sweep(void)
{
	snprintf(directory, PATH_BYTES, NAME, "/tmp", 0ul);
	before_end();
	keys_sweep();
}
