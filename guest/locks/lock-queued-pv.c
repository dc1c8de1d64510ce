/* SPDX-License-Identifier: MIT */
/*
 * The queued lock for CPUs that may not be running, with a futex for the hypervisor: who has spun
 * for long sleeps. Each sleeps at most once and is woken once, when the lock is free for it: who
 * takes the lock leaves a sleeping new head asleep, and marks the word SLOW, so that unlock()
 * wakes it. (Woken when it became the head, it would spin, or sleep and be woken again.) There is
 * no `pending`: who waits must be found, so it queues.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock-queue.h"

enum { QUEUED, ASLEEP, HEAD };
enum { SLOW = 3 }; /* of `locked`, beside LOCKED: wake `sleeper` */
enum { PATIENCE = 200 }; /* looks before a sleep: some microseconds, as a sleep and a wake cost */

struct lock_calls lock_calls LINE;
#define TALLY(CALLS, ONE) __atomic_fetch_add(&lock_calls.CALLS, ONE, __ATOMIC_RELAXED)

static void sleep_until_head(struct waiter *me)
{
	while (__atomic_load_n(&me->state, __ATOMIC_ACQUIRE) != HEAD) {
		long woken = syscall(SYS_futex, &me->state, FUTEX_WAIT_PRIVATE, ASLEEP, NULL);
		TALLY(slept, !woken);
		TALLY(failed, woken && errno != EAGAIN && errno != EINTR);
	}
}

static void wait_for_head(struct waiter *me)
{
	uint32_t queued = QUEUED;

	for (int i = 0; i < PATIENCE; i++) {
		if (__atomic_load_n(&me->state, __ATOMIC_ACQUIRE) == HEAD)
			return;
		relax();
	}
	/* ACQUIRE where it fails: then it has become HEAD. */
	if (__atomic_compare_exchange_n(&me->state, &queued, ASLEEP, false, __ATOMIC_ACQUIRE,
					__ATOMIC_ACQUIRE))
		sleep_until_head(me);
}

/* The head waits for the holder; only the head takes the lock, so free it stays free. */
static void wait_for_lock(struct lock *l, struct waiter *me)
{
	uint8_t locked = LOCKED;

	for (int i = 0; i < PATIENCE; i++) {
		if (!__atomic_load_n(&l->locked, __ATOMIC_ACQUIRE))
			return;
		relax();
	}
	me->state = ASLEEP;
	l->sleeper = me;
	/* RELEASE: who finds SLOW sees the two stores above. Where it fails the lock is free. */
	if (__atomic_compare_exchange_n(&l->locked, &locked, SLOW, false, __ATOMIC_RELEASE,
					__ATOMIC_ACQUIRE))
		sleep_until_head(me);
}

static void lock(struct lock *l, struct waiter *me)
{
	uint32_t seen, queued = QUEUED;

	if (queue_skip(l, &seen))
		return;
	me->state = QUEUED;
	if (queue_join(l, me))
		wait_for_head(me);
	wait_for_lock(l, me);
	struct waiter *next = queue_leave(l, me);
	/* RELEASE: the head will write `locked`, after us. */
	if (!next || __atomic_compare_exchange_n(&next->state, &queued, HEAD, false,
						 __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		return;
	/* It sleeps, so nobody else writes these. */
	l->sleeper = next;
	__atomic_store_n(&l->locked, SLOW, __ATOMIC_RELAXED);
}

static void unlock(struct lock *l, struct waiter *me)
{
	uint8_t locked = LOCKED;

	(void)me;
	if (__atomic_compare_exchange_n(&l->locked, &locked, 0, false, __ATOMIC_RELEASE,
					__ATOMIC_ACQUIRE))
		return;
	struct waiter *head = l->sleeper; /* not after the lock is free */
	__atomic_store_n(&l->locked, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&head->state, HEAD, __ATOMIC_RELEASE);
	TALLY(woken, true);
	TALLY(failed, syscall(SYS_futex, &head->state, FUTEX_WAKE_PRIVATE, 1) < 0);
}

const struct lock_kind lock_queued_pv = { "queued-pv", lock, unlock };
