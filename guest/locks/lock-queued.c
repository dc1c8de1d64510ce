/* SPDX-License-Identifier: MIT */
/*
 * The kernel's qspinlock, as described: the first to wait only sets `pending` and watches the word,
 * and needs no queue; those who come later queue, and their head waits for holder and pending.
 */
#include "lock-queue.h"

enum { QUEUED, HEAD };

/* Waits as the only one; false where somebody waits already. */
static bool wait_pending(struct lock *l)
{
	/* RELAXED: the look that finds the lock free takes it. */
	uint32_t before = __atomic_fetch_or(&l->word, PENDING, __ATOMIC_RELAXED);

	if (before & ~LOCKED) {
		if (!(before & PENDING)) /* it is ours, and the queue was first */
			__atomic_store_n(&l->pending, 0, __ATOMIC_RELAXED);
		return false;
	}
	while (__atomic_load_n(&l->locked, __ATOMIC_ACQUIRE))
		relax();
	/* In this order: the head of the queue must never find neither. */
	__atomic_store_n(&l->locked, LOCKED, __ATOMIC_RELAXED);
	__atomic_store_n(&l->pending, 0, __ATOMIC_RELEASE);
	return true;
}

static void lock(struct lock *l, struct waiter *me)
{
	uint32_t seen;

	if (queue_skip(l, &seen) || (seen == LOCKED && wait_pending(l)))
		return;
	me->state = QUEUED;
	if (queue_join(l, me))
		while (__atomic_load_n(&me->state, __ATOMIC_ACQUIRE) != HEAD)
			relax();
	while (__atomic_load_n(&l->word, __ATOMIC_ACQUIRE) & (PENDING | LOCKED))
		relax();
	struct waiter *next = queue_leave(l, me);
	if (next) /* RELEASE: it will write `locked`, after us */
		__atomic_store_n(&next->state, HEAD, __ATOMIC_RELEASE);
}

static void unlock(struct lock *l, struct waiter *me)
{
	(void)me;
	__atomic_store_n(&l->locked, 0, __ATOMIC_RELEASE);
}

const struct lock_kind lock_queued = { "queued", lock, unlock };
