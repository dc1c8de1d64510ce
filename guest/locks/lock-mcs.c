/* SPDX-License-Identifier: MIT */
/*
 * Mellor-Crummey and Scott 1991: a queue in which everybody waits for a change of its own waiter,
 * so that a hand-over moves one cache line to one CPU. It is held by the waiter at the front.
 */
#include <stddef.h>

#include "lock.h"

enum { GO, WAIT };

static void lock(struct lock *l, struct waiter *me)
{
	me->next = NULL;
	me->state = WAIT;
	/*
	 * RELEASE: who finds `me` as the last must see the two stores above, before it sets `next`.
	 * ACQUIRE: to see those of `before`, and, where there is none, to take the lock.
	 */
	struct waiter *before = __atomic_exchange_n(&l->last, me, __ATOMIC_ACQ_REL);
	if (!before)
		return;
	__atomic_store_n(&before->next, me, __ATOMIC_RELEASE); /* `me` is ready to be told */
	while (__atomic_load_n(&me->state, __ATOMIC_ACQUIRE) != GO)
		relax();
}

static void unlock(struct lock *l, struct waiter *me)
{
	/* ACQUIRE: not to tell `next` before it is ready. */
	struct waiter *next = __atomic_load_n(&me->next, __ATOMIC_ACQUIRE), *last = me;

	if (!next) {
		if (__atomic_compare_exchange_n(&l->last, &last, NULL, false, __ATOMIC_RELEASE,
						__ATOMIC_RELAXED))
			return;
		/* Somebody is between its exchange and its store. */
		while (!(next = __atomic_load_n(&me->next, __ATOMIC_ACQUIRE)))
			relax();
	}
	__atomic_store_n(&next->state, GO, __ATOMIC_RELEASE);
}

const struct lock_kind lock_mcs = { "mcs", lock, unlock };
