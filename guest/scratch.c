/* SPDX-License-Identifier: MIT */
/* Removes what a workload may leave behind: a directory, IPC objects, processes. */
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

/* Memory that the janitor sees; `own` in a guest. */
static void *janitor_shared(void *own, size_t size)
{
	if (in_guest)
		return own; /* saves each fork of each workload a mapping to copy */
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		fail("mmap");
	return at;
}

/*
 * Keys of System V IPC objects, which a workload makes and removes. An id is known only after the
 * object exists, which is too late if the process is killed just then. A key is known before.
 */
/* A guest has the same keys in each Run. A workload has a key for each of at most 10000 users. */
enum { GUESTS = 0x6b746178, MOST = 10000 };

static struct { uint32_t first, count; } own_keys, *keys;

static void keys_share(void)
{
	keys = janitor_shared(&own_keys, sizeof(own_keys));
}

/* Whether no segment and no semaphore set has one of the keys. */
static bool unused(uint32_t first, uint32_t count)
{
	for (uint32_t key = first; key < first + count; key++)
		if (shmget(key, 0, 0) >= 0 || errno != ENOENT ||
		    semget(key, 0, 0) >= 0 || errno != ENOENT) {
			if (errno == ENOSYS)
				fail("System V IPC");
			return false;
		}
	return true;
}

/* The first of so many keys. */
int scratch_keys(uint32_t count)
{
	uint32_t first = GUESTS;

	do {
		if (!in_guest && getrandom(&first, sizeof(first), 0) != sizeof(first))
			fail("getrandom");
	} while (first == IPC_PRIVATE || first > INT32_MAX - count || !unused(first, count));
	keys->first = first;
	keys->count = count;
	return first;
}

static void keys_remove(void)
{
	for (uint32_t i = 0; i < keys->count; i++) {
		int segment = shmget(keys->first + i, 0, 0), set = semget(keys->first + i, 0, 0);
		if (segment >= 0)
			shmctl(segment, IPC_RMID, NULL);
		if (set >= 0)
			semctl(set, 0, IPC_RMID);
	}
	keys->count = 0;
}

static void keys_sweep(void)
{
	keys->first = GUESTS;
	keys->count = MOST;
	keys_remove();
}

/*
 * The directory that a workload may write to. Its path is in shared memory: this process removes it
 * at its end, or the janitor does if the process was killed.
 */
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

/*
 * Natively, the janitor is a second process. It outlives the workload however that ends, and
 * removes what is left: the process group, the scratch directory and the IPC objects. It keeps
 * stdout open until then, so the end of the output means that nothing is left.
 */
static __attribute__((noreturn)) void watch(int pidfd, pid_t group, int alive)
{
	struct pollfd end = { .fd = pidfd, .events = POLLIN };
	sigset_t all;
	char byte;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	while (poll(&end, 1, -1) != 1)
		;
	/*
	 * One kill is enough: a fork in the group either sees the signal and fails, or its child
	 * gets the signal. The kernel does not reuse the group's number while the group has
	 * members, and without members not before it has used all other numbers.
	 */
	kill(-group, SIGKILL);
	/* A process that was killed during a system call completes it, and may make a file. */
	(void)!read(alive, &byte, 1);
	before_end();
	_exit(0);
}

void janitor_start(void)
{
	pid_t self = getpid(), first;
	int alive[2]; /* end of file: this process and all its children are gone */

	janitor_share();
	setpgid(0, 0); /* fails for a session leader, which has its own group already */
	int pidfd = syscall(SYS_pidfd_open, self, 0);
	if (pidfd < 0 || getpgrp() != self)
		fail("pidfd_open needs Linux 5.3, and a process group");
	if (pipe(alive))
		fail("pipe");
	first = fork();
	if (first < 0)
		fail("fork");
	if (!first) {
		/* Not a child of the workload's process, which may wait for any child. */
		setsid();
		pid_t second = fork();
		if (!second) {
			close(alive[1]);
			watch(pidfd, self, alive[0]);
		}
		_exit(second < 0);
	}
	if (!child_succeeded(first))
		fail("fork");
	close(pidfd);
	close(alive[0]);
}
