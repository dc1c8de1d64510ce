/* SPDX-License-Identifier: MIT */
/*
 * Keys of System V IPC objects, which a workload makes and removes. An id is known only after the
 * object exists, which is too late if the process is killed just then. A key is known before.
 */
#include <errno.h>
#include <sys/ipc.h>
#include <sys/random.h>
#include <sys/sem.h>
#include <sys/shm.h>

#include "guest.h"

/* A guest has the same keys in each Run. A workload has a key for each of at most 10000 users. */
enum { GUESTS = 0x6b746178, MOST = 10000 };

static struct { uint32_t first, count; } own, *keys;

void keys_share(void)
{
	keys = janitor_shared(&own, sizeof(own));
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

void keys_remove(void)
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

void keys_sweep(void)
{
	keys->first = GUESTS;
	keys->count = MOST;
	keys_remove();
}
