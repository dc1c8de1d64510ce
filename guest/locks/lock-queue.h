/* SPDX-License-Identifier: MIT */
/*
 * What the two queued locks share: a 4-byte word that has in its upper half the number of the last
 * waiter of an MCS queue, and in its lowest byte whether the lock is held. Its parts are written
 * alone and compared together; x86 keeps writes of all sizes to one line in one order.
 */
#ifndef KTAX_LOCK_QUEUE_H
#define KTAX_LOCK_QUEUE_H

#include <stddef.h>

#include "lock.h"

enum { LOCKED = 1, PENDING = 1 << 8, TAIL_SHIFT = 16 };

/* Takes a lock that nobody holds or waits for; where it cannot, `seen` says why. */
static inline bool queue_skip(struct lock *l, uint32_t *seen)
{
	*seen = 0;
	return __atomic_compare_exchange_n(&l->word, seen, LOCKED, false, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

/* Puts `me`, which is ready but for `next`, at the end; true if somebody is before it. */
static inline bool queue_join(struct lock *l, struct waiter *me)
{
	me->next = NULL;
	/* RELEASE: who finds this number sees `me` ready. ACQUIRE: the same of who is before. */
	uint16_t before = __atomic_exchange_n(&l->tail, me->number, __ATOMIC_ACQ_REL);
	if (before)
		__atomic_store_n(&l->waiters[before - 1].next, me, __ATOMIC_RELEASE);
	return before;
}

/*
 * The head of the queue leaves it with the lock, which it has seen free with an ACQUIRE: nobody
 * else can take it while there is a queue. Who is the head now, or NULL.
 */
static inline struct waiter *queue_leave(struct lock *l, struct waiter *me)
{
	uint32_t alone = (uint32_t)me->number << TAIL_SHIFT;
	struct waiter *next;

	if (__atomic_compare_exchange_n(&l->word, &alone, LOCKED, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		return NULL;
	/* Somebody is behind, or has set `pending` for a moment and will be. */
	__atomic_store_n(&l->locked, LOCKED, __ATOMIC_RELAXED);
	while (!(next = __atomic_load_n(&me->next, __ATOMIC_ACQUIRE)))
		relax();
	return next;
}

#endif
