/* SPDX-License-Identifier: MIT */
/* Jobs on memory: the break, grown and shrunk by the bare call, and System V shared memory. */
#include <errno.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jobs.h"

/* Writes to every second cache line of a page. */
static unsigned dirty(uintptr_t page)
{
	for (unsigned byte = 0; byte < PAGE; byte += 128)
		*(volatile char *)(page + byte) = 1;
	return 1;
}

/*
 * One MiB more; from its end take 16 pages away and give them back one by one, and so on. Counts
 * the calls, or the pages that it dirties.
 */
static const char *grow(unsigned rounds, bool touch)
{
	const uintptr_t was = syscall(SYS_brk, 0);
	const uintptr_t top = ((was + PAGE - 1) & -PAGE) + (1 << 20), low = top - 16 * PAGE;

	errno = ENOMEM; /* the bare call only stays where it is */
	if ((uintptr_t)syscall(SYS_brk, top) != top)
		return "brk";
	for (unsigned i = 0; i < rounds; i++)
		for (uintptr_t at = low; at <= top; at += PAGE) {
			if ((uintptr_t)syscall(SYS_brk, at) != at)
				return "brk";
			if (!touch)
				++*job_done;
			else if (at > low)
				*job_done += dirty(at - PAGE);
		}
	return (uintptr_t)syscall(SYS_brk, was) == was ? NULL : "brk";
}

const char *brk_test(void)
{
	return grow(1000, false);
}

const char *page_test(void)
{
	return grow(100, true);
}

static int semaphore(int set, int change)
{
	struct sembuf operation = { .sem_op = change };

	return syscall(SYS_semop, set, &operation, 1);
}

const char *shared_memory(void)
{
	enum { SIZE = 65536, ROUNDS = 100 };
	static char from[PAGE], to[PAGE];
	int segment, set;
	char *memory;

	segment = shmget(user_key, SIZE, IPC_CREAT | IPC_EXCL | 0600);
	if (segment < 0)
		return "shmget";
	set = semget(user_key, 1, IPC_CREAT | IPC_EXCL | 0600);
	if (set < 0 || syscall(SYS_semctl, set, 0, SETVAL, 1))
		return "semget";
	memory = shmat(segment, NULL, 0);
	if (memory == (void *)-1)
		return "shmat";
	for (unsigned i = 0; i < ROUNDS; i++) {
		size_t size = message_size();
		from[0] = i;
		if (semaphore(set, -1))
			return "semop";
		memcpy(memory, from, size);
		if (semaphore(set, 1) || semaphore(set, -1))
			return "semop";
		memcpy(to, memory, size);
		if (semaphore(set, 1))
			return "semop";
		if (to[0] != from[0])
			return "memory";
		*job_done += size;
	}
	if (shmdt(memory) || shmctl(segment, IPC_RMID, NULL))
		return "shmctl";
	return syscall(SYS_semctl, set, 0, IPC_RMID, 0) ? "semctl" : NULL;
}
