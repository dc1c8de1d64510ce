/* SPDX-License-Identifier: MIT */
/* What mmap-stress does its calls to: address space that belongs to one thread alone. */
#ifndef KTAX_ARENA_H
#define KTAX_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "random.h"

enum { MAPPING_PAGES = 8 };

struct arena {
	char *start;
	uint32_t pages, mappings;
	uint32_t *owner; /* which mapping a page is part of; 0 is a hole */
	uint8_t *protection;
};

/* A stretch of one mapping; length 0 where there is none. */
struct stretch { uint32_t at, length, prot; };

void arena_reserve(struct arena *arenas, unsigned count);
void arena_clear(struct arena *a);
struct stretch arena_find(struct arena *a, uint32_t at); /* the next one, not far behind `at` */

/* Each is one system call; false where it failed. */
bool arena_map(struct arena *a, struct stretch s);
bool arena_unmap(struct arena *a, struct stretch s);
bool arena_move(struct arena *a, struct stretch from, struct stretch to);
bool arena_shrink(struct arena *a, struct stretch s, uint32_t length);

static inline char *arena_page(const struct arena *a, uint32_t n)
{
	return a->start + (size_t)n * 4096;
}

/* layout.c: what the kernel says is mapped in the arena now */
struct layout { uint64_t vmas, hash; };
struct layout arena_layout(const struct arena *a);

#endif
