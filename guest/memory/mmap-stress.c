/* SPDX-License-Identifier: MIT */
/* Pseudo-random mmap, munmap and mremap of 1 to 8 pages, and now and then a touch. */
#include <string.h>
#include <sys/mman.h>

#include "arena.h"
#include "ktax.h"

static uint64_t state;
static struct { uint64_t calls, mmap, munmap, mremap, failed, skipped, touches; } did;

/* Makes `to` out of `from`: moves it, or shrinks it in its place where the two overlap. */
static bool remap(struct stretch from, struct stretch *to)
{
	to->prot = from.prot;
	if (to->at >= from.at + from.length || from.at >= to->at + to->length)
		return arena_move(from, *to);
	to->at = from.at;
	if (to->length > from.length)
		to->length = from.length;
	return arena_shrink(from, to->length);
}

/* One draw, one call; none where there is nothing to remap. */
static void step(void)
{
	const uint32_t touch_percent = 12, last = ARENA_PAGES - MAPPING_PAGES;
	/* Every number is drawn, used or not: the sequence never depends on a result. */
	uint32_t kind = below(&state, 3), at = below(&state, last);
	uint32_t length = 1 + below(&state, MAPPING_PAGES);
	uint32_t prot = below(&state, 8) & (PROT_READ | PROT_WRITE);
	uint32_t to = below(&state, last), new_length = 1 + below(&state, MAPPING_PAGES);
	uint32_t chance = below(&state, 100), which = below(&state, 65536);
	struct stretch s = { at, length, prot }, from = { .length = 0 };
	bool done;

	if (kind == 2)
		from = arena_find(at);
	if (kind == 2 && !from.length) {
		did.skipped++;
		return;
	}
	if (kind == 0) {
		did.mmap++;
		done = arena_map(s);
	} else if (kind == 1) {
		did.munmap++;
		done = arena_unmap(s);
	} else {
		did.mremap++;
		s = (struct stretch){ to, new_length, 0 };
		done = remap(from, &s);
	}
	did.calls++;
	did.failed += !done;
	if (done && kind != 1 && s.prot && chance < touch_percent) {
		volatile char *byte = arena_page(s.at + which % s.length);
		if (s.prot & PROT_WRITE)
			*byte = 1;
		else
			(void)*byte;
		did.touches++;
	}
}

/* From an empty arena and the same seed, so that a warm-up leaves no trace in what follows. */
static __attribute__((noinline, noclone)) void steps(uint64_t calls)
{
	state = 1;
	memset(&did, 0, sizeof(did));
	while (did.calls < calls)
		step();
}

static void mmap_stress_run(const struct order *o)
{
	arena_reserve();
	steps(1000);
	arena_clear();
	uint64_t before = faults();
	region_begin();
	steps(o->ops);
	region_end();
	sig("faults", faults() - before);
	sig("calls", did.calls);
	sig("mmap", did.mmap);
	sig("munmap", did.munmap);
	sig("mremap", did.mremap);
	sig("failed", did.failed);
	sig("skipped", did.skipped);
	sig("touches", did.touches);
	struct layout now = arena_layout();
	sig("vmas", now.vmas);
	sig("layout-hash", now.hash);
}

WORKLOAD("mmap-stress", mmap_stress_run);
