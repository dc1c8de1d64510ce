/* SPDX-License-Identifier: MIT */
/*
 * Five locks of one interface, in the words of their papers: who wants a lock brings a waiter, and
 * holds nothing else meanwhile.
 *
 * Orders: what takes a lock is an ACQUIRE and what gives it back a RELEASE, so that a critical
 * section sees all of those before it. What only queues says itself why it needs more.
 */
#ifndef KTAX_LOCK_H
#define KTAX_LOCK_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#define LINE __attribute__((aligned(64))) /* a cache line of its own */

struct waiter {
	struct waiter *next; /* who is behind it in the queue */
	uint32_t state;      /* what it waits for the change of; its lock says the values */
	uint16_t number;     /* from 1 */
} LINE;

struct lock {
	union {
		uint32_t word;
		struct { uint16_t owner, next; }; /* ticket */
		struct { uint8_t locked, pending; uint16_t tail; }; /* queued, where x86 has them */
	} LINE;
	struct waiter *last;    /* MCS: the end of the queue */
	struct waiter *sleeper; /* queued-pv: the head of the queue, where it sleeps */
	struct waiter *waiters; /* queued: the one with number n is waiters[n - 1] */
};

struct lock_kind {
	const char *name;
	void (*lock)(struct lock *l, struct waiter *me);
	void (*unlock)(struct lock *l, struct waiter *me);
};

extern const struct lock_kind lock_test_and_set, lock_ticket, lock_mcs, lock_queued, lock_queued_pv;

/* A critical section, and how far it is. */
struct section {
	struct lock lock;
	const struct lock_kind *kind;
	uint64_t hold, think, limit; /* iterations of an empty loop; acquisitions */
	uint64_t total LINE;
};

/* lock-section.c: acquires until the limit is reached or lock_stop; how often that was */
uint64_t section_hammer(struct section *s, struct waiter *me);

/* queued-pv: sleeps, wakes, and futex calls that failed */
extern struct lock_calls { uint64_t slept, woken, failed; } lock_calls;

extern bool lock_stop; /* all is done: threads only have to get out */

/*
 * Between two looks. Once all is done, who waits lets others run: on few CPUs a fair lock would
 * need a time slice for each thread to get out.
 */
static inline void relax(void)
{
	if (__atomic_load_n(&lock_stop, __ATOMIC_RELAXED))
		sched_yield();
	else
		__builtin_ia32_pause();
}

#endif
