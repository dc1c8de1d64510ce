/* SPDX-License-Identifier: MIT */
/* Whoever exchanges a 0 for a 1 has it: no order among those who wait, and nobody to wait for. */
#include "lock.h"

static void lock(struct lock *l, struct waiter *me)
{
	(void)me;
	while (__atomic_exchange_n(&l->word, 1, __ATOMIC_ACQUIRE))
		/* Only look until it is worth another try: looking leaves the line shared. */
		while (__atomic_load_n(&l->word, __ATOMIC_RELAXED))
			relax();
}

static void unlock(struct lock *l, struct waiter *me)
{
	(void)me;
	__atomic_store_n(&l->word, 0, __ATOMIC_RELEASE);
}

const struct lock_kind lock_test_and_set = { "test-and-set", lock, unlock };
