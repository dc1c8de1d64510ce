/* SPDX-License-Identifier: MIT */
/*
 * It reads the count of all acquisitions when it begins and writes it when it ends, so that two
 * threads in it at a time lose an update. Only inside it is said that the limit is reached: however
 * the threads follow each other, there are exactly as many acquisitions.
 */
#include "lock.h"

bool lock_stop LINE;

static inline void spend(uint64_t iterations)
{
	while (iterations--)
		__asm__ volatile("" ::: "memory");
}

uint64_t section_hammer(struct section *s, struct waiter *me)
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
