/* SPDX-License-Identifier: MIT */
/*
 * What a workload may leave behind until its end. The list is in shared memory: who removes it,
 * this process or the janitor after its sudden death, sees all of it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest.h"

enum { IPC_MAX = 8192, PATH_BYTES = 256 };

static struct {
	char directory[PATH_BYTES];
	uint32_t ipcs;
	struct { int type, id; } ipc[IPC_MAX];
} *left;

void scratch_share(void)
{
	const int flags = MAP_SHARED | MAP_ANONYMOUS;

	left = mmap(NULL, sizeof(*left), PROT_READ | PROT_WRITE, flags, -1, 0);
	if (left == MAP_FAILED)
		fail("mmap");
}

const char *scratch_directory(void)
{
	const char *parent = in_guest ? NULL : getenv("TMPDIR");

	if (left->directory[0])
		return left->directory;
	errno = ENAMETOOLONG;
	if (!parent || parent[0] != '/')
		parent = "/tmp";
	if (strlen(parent) + sizeof("/ktax-XXXXXX") > PATH_BYTES)
		fail("TMPDIR");
	char made[PATH_BYTES];
	strcat(strcpy(made, parent), "/ktax-XXXXXX");
	/* A random name hashes differently in each Run, so the guest, which is alone, has none. */
	if (in_guest ? mkdir(made, 0700) : !mkdtemp(made))
		fail(parent);
	strcpy(left->directory, made);
	return left->directory;
}

const char *scratch(void)
{
	static char file[PATH_BYTES + sizeof("/file")];

	return strcat(strcpy(file, scratch_directory()), "/file");
}

void scratch_ipc(int type, int id)
{
	uint32_t n = __atomic_fetch_add(&left->ipcs, 1, __ATOMIC_SEQ_CST);

	errno = ENOSPC;
	if (n >= IPC_MAX)
		fail("scratch_ipc");
	left->ipc[n].id = id;
	left->ipc[n].type = type;
}

static int discard(const char *path, const struct stat *s, int type, struct FTW *at)
{
	(void)s, (void)type, (void)at;
	return remove(path) && errno != ENOENT;
}

void scratch_remove(void)
{
	if (!left)
		return;
	for (uint32_t i = 0; i < left->ipcs && i < IPC_MAX; i++)
		if (left->ipc[i].type == IPC_SHM)
			shmctl(left->ipc[i].id, IPC_RMID, NULL);
		else
			semctl(left->ipc[i].id, 0, IPC_RMID);
	left->ipcs = 0;
	if (left->directory[0])
		nftw(left->directory, discard, 16, FTW_DEPTH | FTW_PHYS);
	left->directory[0] = 0;
}
