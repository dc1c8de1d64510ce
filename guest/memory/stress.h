/* SPDX-License-Identifier: MIT */
/* What one thread of mmap-stress does, and did. */
#ifndef KTAX_STRESS_H
#define KTAX_STRESS_H

#include "arena.h"

struct stress {
	uint64_t seed, state;
	struct { uint64_t calls, mmap, munmap, mremap, failed, skipped, touches; } did;
	struct arena *arena;
} __attribute__((aligned(64)));

/* From an empty arena and the same seed, so that a warm-up leaves no trace in what follows. */
void stress_steps(struct stress *me, uint64_t calls);

#endif
