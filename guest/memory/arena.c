/* SPDX-License-Identifier: MIT */
/*
 * The arena stays a hole between the calls, so nothing else may map memory meanwhile: the tables
 * are static. They follow what is mapped, because an mremap of random pages would mostly hit
 * several mappings or none, and then measure how fast the kernel says no.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "arena.h"
#include "ktax.h"

static char *arena;
static uint32_t owner[ARENA_PAGES], mappings; /* which mapping a page is part of; 0 is a hole */
static uint8_t protection[ARENA_PAGES];

void arena_reserve(void)
{
	const uintptr_t giga = 1ul << 30; /* a fixed place in the page tables */
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	char *all = mmap(NULL, 2 * giga, PROT_NONE, flags, -1, 0);

	if (all == MAP_FAILED || munmap(all, 2 * giga))
		fail("mmap");
	arena = (char *)(((uintptr_t)all + giga - 1) & ~(giga - 1));
}

void arena_clear(void)
{
	if (munmap(arena, (size_t)ARENA_PAGES * PAGE))
		fail("munmap");
	memset(owner, 0, sizeof(owner));
	memset(protection, 0, sizeof(protection));
	mappings = 0;
}

char *arena_page(uint32_t n)
{
	return arena + (size_t)n * PAGE;
}

struct stretch arena_find(uint32_t at)
{
	const uint32_t scan = 64, from = at;
	struct stretch s = { .length = 0 };

	while (at < from + scan && at < ARENA_PAGES - 1 && !owner[at])
		at++;
	if (!owner[at])
		return s;
	s.at = at;
	s.prot = protection[at];
	while (s.length < MAPPING_PAGES && at < ARENA_PAGES && owner[at] == owner[s.at]) {
		s.length++;
		at++;
	}
	return s;
}

static bool own(struct stretch s, uint32_t mapping)
{
	for (uint32_t i = s.at; i < s.at + s.length; i++) {
		owner[i] = mapping;
		protection[i] = s.prot;
	}
	return true;
}

/* The C library's wrappers of these calls add nothing to them. */
bool arena_map(struct stretch s)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
	char *at = arena_page(s.at);

	return mmap(at, (size_t)s.length * PAGE, s.prot, flags, -1, 0) == at && own(s, ++mappings);
}

bool arena_unmap(struct stretch s)
{
	return !munmap(arena_page(s.at), (size_t)s.length * PAGE) && own(s, 0);
}

bool arena_move(struct stretch from, struct stretch to)
{
	const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
	size_t size = (size_t)from.length * PAGE, new_size = (size_t)to.length * PAGE;
	char *target = arena_page(to.at);

	return mremap(arena_page(from.at), size, new_size, flags, target) == target &&
	       own(from, 0) && own(to, ++mappings);
}

bool arena_shrink(struct stretch s, uint32_t length)
{
	struct stretch rest = { .at = s.at + length, .length = s.length - length };
	char *at = arena_page(s.at);

	return mremap(at, (size_t)s.length * PAGE, (size_t)length * PAGE, 0) == at && own(rest, 0);
}
