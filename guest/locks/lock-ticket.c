/* SPDX-License-Identifier: MIT */
/* Draw a number and wait until it is called: strictly in order of arrival, awake or not. */
#include "lock.h"

static void lock(struct lock *l, struct waiter *me)
{
	/* RELAXED: the number alone gives nothing; the look that finds it called takes the lock. */
	uint16_t mine = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED);

	(void)me;
	while (__atomic_load_n(&l->owner, __ATOMIC_ACQUIRE) != mine)
		relax();
}

static void unlock(struct lock *l, struct waiter *me)
{
	(void)me;
	/* Only the holder writes `owner`, so it need not add atomically. */
	__atomic_store_n(&l->owner, l->owner + 1, __ATOMIC_RELEASE);
}

const struct lock_kind lock_ticket = { "ticket", lock, unlock };
