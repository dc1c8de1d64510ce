/* SPDX-License-Identifier: MIT */
/*
 * Many threads and one critical section. The five locks have one interface, in the words of their
 * papers: who wants a lock brings a waiter, and holds nothing else meanwhile.
 *
 * Orders: what takes a lock is an ACQUIRE and what gives it back a RELEASE, so that a critical
 * section sees all of those before it. A step that only queues has a comment where it needs more.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools.h"

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

/* A critical section, and how far it is. */
struct section {
	struct lock lock;
	const struct lock_kind *kind;
	uint64_t hold, think, limit; /* iterations of an empty loop; acquisitions */
	uint64_t total LINE;
};

static bool lock_stop LINE; /* all is done: threads only have to get out */

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

/* Whoever exchanges a 0 for a 1 has it: no order among those who wait, and nobody to wait for. */
static void test_and_set_lock(struct lock *l, struct waiter *me)
{
	(void)me;
	while (__atomic_exchange_n(&l->word, 1, __ATOMIC_ACQUIRE))
		/* Only look until it is worth another try: looking leaves the line shared. */
		while (__atomic_load_n(&l->word, __ATOMIC_RELAXED))
			relax();
}

static void test_and_set_unlock(struct lock *l, struct waiter *me)
{
	(void)me;
	__atomic_store_n(&l->word, 0, __ATOMIC_RELEASE);
}

static const struct lock_kind lock_test_and_set = {
	"test-and-set", test_and_set_lock, test_and_set_unlock
};

/* Draw a number and wait until it is called: strictly in order of arrival, awake or not. */
static void ticket_lock(struct lock *l, struct waiter *me)
{
	/* RELAXED: the number alone gives nothing; the look that finds it called takes the lock. */
	uint16_t mine = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED);

	(void)me;
	while (__atomic_load_n(&l->owner, __ATOMIC_ACQUIRE) != mine)
		relax();
}

static void ticket_unlock(struct lock *l, struct waiter *me)
{
	(void)me;
	/* Only the holder writes `owner`, so it need not add atomically. */
	__atomic_store_n(&l->owner, l->owner + 1, __ATOMIC_RELEASE);
}

static const struct lock_kind lock_ticket = { "ticket", ticket_lock, ticket_unlock };

/*
 * Mellor-Crummey and Scott 1991: a queue in which everybody waits for a change of its own waiter,
 * so that a hand-over moves one cache line to one CPU. It is held by the waiter at the front.
 */
enum { GO, WAIT };

static void mcs_lock(struct lock *l, struct waiter *me)
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

static void mcs_unlock(struct lock *l, struct waiter *me)
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

static const struct lock_kind lock_mcs = { "mcs", mcs_lock, mcs_unlock };

/*
 * Both queued locks are a 4-byte word that has in its upper half the number of the last
 * waiter of an MCS queue, and in its lowest byte whether the lock is held. Its parts are written
 * alone and compared together; x86 keeps writes of all sizes to one line in one order.
 */
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

/*
 * The kernel's qspinlock, as described: the first to wait only sets `pending` and watches the word,
 * and needs no queue; those who come later queue, and their head waits for holder and pending.
 */
enum { QUEUED, ASLEEP, HEAD }; /* states of waiters; only queued-pv has ASLEEP */

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

static void queued_lock(struct lock *l, struct waiter *me)
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

static void queued_unlock(struct lock *l, struct waiter *me)
{
	(void)me;
	__atomic_store_n(&l->locked, 0, __ATOMIC_RELEASE);
}

static const struct lock_kind lock_queued = { "queued", queued_lock, queued_unlock };

/*
 * The queued lock for CPUs that may not be running, with a futex for the hypervisor: who has spun
 * for long sleeps. Each sleeps at most once and is woken once, when the lock is free for it: who
 * takes the lock leaves a sleeping new head asleep, and marks the word SLOW, so that unlock()
 * wakes it. (Woken when it became the head, it would spin, or sleep and be woken again.) There is
 * no `pending`: who waits must be found, so it queues.
 */
enum { SLOW = 3 }; /* of `locked`, beside LOCKED: wake `sleeper` */
enum { PATIENCE = 200 }; /* looks before a sleep: some microseconds, as a sleep and a wake cost */

/* Sleeps, wakes, and futex calls that failed. */
static struct { uint64_t slept, woken, failed; } lock_calls LINE;
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

static void queued_pv_lock(struct lock *l, struct waiter *me)
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

static void queued_pv_unlock(struct lock *l, struct waiter *me)
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

static const struct lock_kind lock_queued_pv = { "queued-pv", queued_pv_lock, queued_pv_unlock };

static inline void spend(uint64_t iterations)
{
	while (iterations--)
		__asm__ volatile("" ::: "memory");
}

/*
 * Acquires until the limit is reached or lock_stop is set, and returns how often. The section reads
 * the count of all acquisitions when it begins and writes it when it ends, so that two threads in
 * it at a time lose an update. The limit is only checked inside: however the threads follow each
 * other, there are exactly as many acquisitions.
 */
static uint64_t section_hammer(struct section *s, struct waiter *me)
{
	for (uint64_t mine = 0;; mine++) {
		s->kind->lock(&s->lock, me);
		uint64_t before = s->total;
		bool done = before == s->limit || __atomic_load_n(&lock_stop, __ATOMIC_RELAXED);
		if (!done) {
			spend(s->hold);
			s->total = before + 1;
		}
		s->kind->unlock(&s->lock, me);
		if (done)
			return mine;
		spend(s->think);
	}
}

static const struct lock_kind *const kinds[] = { &lock_test_and_set, &lock_ticket, &lock_mcs,
						 &lock_queued, &lock_queued_pv };
static struct waiter waiters[TEAM_MAX + 1]; /* the last is the main thread's */
static struct section shared;
static uint64_t threads, acquired[TEAM_MAX], arrived, pin;
static sem_t all_arrived, done, leave;

static void work(unsigned n)
{
	struct section own = { /* for the warm-up */
		.lock.waiters = waiters,
		.kind = shared.kind,
		.hold = shared.hold,
		.think = shared.think,
		.limit = 100,
	};

	if (pin)
		team_pin(n);
	acquired[n] = section_hammer(&own, &waiters[n]);
	if (__atomic_add_fetch(&arrived, 1, __ATOMIC_RELAXED) == threads)
		sem_post(&all_arrived);
	acquired[n] = section_hammer(&shared, &waiters[n]);
	__atomic_store_n(&lock_stop, true, __ATOMIC_RELAXED);
	sem_post(&done);
	sem_wait(&leave); /* the end of a thread is not in the Region */
}

static void results(void)
{
	uint64_t sum = 0, least = UINT64_MAX, most = 0;

	for (unsigned i = 0; i < threads; i++) {
		sum += acquired[i];
		least = acquired[i] < least ? acquired[i] : least;
		most = acquired[i] > most ? acquired[i] : most;
	}
	sig("lost-updates", sum - shared.total);
	sig("failed", lock_calls.failed);
	value("threads", threads);
	value("acquisitions", shared.total);
	value("min", least);
	value("max", most);
	value("slept", lock_calls.slept);
	value("woken", lock_calls.woken);
}

/*
 * The main thread holds the lock until all threads want it: otherwise one of them would begin
 * alone, and do most of it before there is any contention.
 */
static void locks_run(const struct order *o)
{
	uint64_t ms = param(o, "ms", 0), lock = param(o, "lock", 0);

	threads = param(o, "overcommit", 0) * team_cpus();
	if (!threads)
		threads = param(o, "threads", 2);
	errno = EINVAL;
	if (lock >= sizeof(kinds) / sizeof(*kinds) || !threads || threads > TEAM_MAX)
		fail("a lock, or 1 to 512 threads");
	if (ms && counted)
		fail("ms: there is no time here");
	shared.lock.waiters = waiters;
	shared.kind = kinds[lock];
	shared.hold = param(o, "hold", 100);
	shared.think = param(o, "think", 100);
	shared.limit = ms ? UINT64_MAX : o->ops;
	pin = param(o, "pin", 0);
	for (unsigned i = 0; i <= threads; i++)
		waiters[i].number = i + 1;
	shared.kind->lock(&shared.lock, &waiters[threads]);
	team_start(threads, work);
	sem_wait(&all_arrived);
	usleep(1000); /* the last is still on its way from there to the lock */
	region_begin();
	shared.kind->unlock(&shared.lock, &waiters[threads]);
	if (ms) {
		usleep(ms * 1000);
		__atomic_store_n(&lock_stop, true, __ATOMIC_RELAXED);
	}
	for (uint64_t i = 0; i < threads; i++)
		sem_wait(&done);
	region_end();
	for (uint64_t i = 0; i < threads; i++)
		sem_post(&leave);
	team_join();
	results();
	sig("unfinished", ms ? 0 : o->ops - shared.total);
}

WORKLOAD("locks", locks_run);
