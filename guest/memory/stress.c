/* SPDX-License-Identifier: MIT */
/* Pseudo-random mmap, munmap and mremap of 1 to 8 pages, and now and then a touch. */
#include <string.h>
#include <sys/mman.h>

#include "stress.h"

/* Makes `to` out of `from`: moves it, or shrinks it in its place where the two overlap. */
static bool remap(struct arena *a, struct stretch from, struct stretch *to)
{
	to->prot = from.prot;
	if (to->at >= from.at + from.length || from.at >= to->at + to->length)
		return arena_move(a, from, *to);
	to->at = from.at;
	if (to->length > from.length)
		to->length = from.length;
	return arena_shrink(a, from, to->length);
}

/* One draw, one call; none where there is nothing to remap. */
static void step(struct stress *me)
{
	struct arena *a = me->arena;
	const uint32_t touch_percent = 12, last = a->pages - MAPPING_PAGES;
	uint64_t *state = &me->state;
	/* Every number is drawn, used or not: the sequence never depends on a result. */
	uint32_t kind = below(state, 3), at = below(state, last);
	uint32_t length = 1 + below(state, MAPPING_PAGES);
	uint32_t prot = below(state, 8) & (PROT_READ | PROT_WRITE);
	uint32_t to = below(state, last), new_length = 1 + below(state, MAPPING_PAGES);
	uint32_t chance = below(state, 100), which = below(state, 65536);
	struct stretch s = { at, length, prot }, from = { .length = 0 };
	bool done;

	if (kind == 2)
		from = arena_find(a, at);
	if (kind == 2 && !from.length) {
		me->did.skipped++;
		return;
	}
	if (kind == 0) {
		me->did.mmap++;
		done = arena_map(a, s);
	} else if (kind == 1) {
		me->did.munmap++;
		done = arena_unmap(a, s);
	} else {
		me->did.mremap++;
		s = (struct stretch){ to, new_length, 0 };
		done = remap(a, from, &s);
	}
	me->did.calls++;
	me->did.failed += !done;
	if (done && kind != 1 && s.prot && chance < touch_percent) {
		volatile char *byte = arena_page(a, s.at + which % s.length);
		if (s.prot & PROT_WRITE)
			*byte = 1;
		else
			(void)*byte;
		me->did.touches++;
	}
}

void stress_steps(struct stress *me, uint64_t calls)
{
	me->state = me->seed;
	memset(&me->did, 0, sizeof(me->did));
	while (me->did.calls < calls)
		step(me);
}
