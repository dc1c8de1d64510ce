/* SPDX-License-Identifier: MIT */
/*
 * An arena stays a hole between the calls, so nothing else may be mapped into it meanwhile. The
 * tables follow what is mapped, because an mremap of random pages would mostly hit several
 * mappings or none, and then measure how fast the kernel says no.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "arena.h"
#include "ktax.h"

/* The kernel allows a process 65530 mappings; an arena of 65536 pages comes to 9731. */
enum { PAGES = 65536, PAGES_OF_ALL = 4 * PAGES, ANONYMOUS = MAP_PRIVATE | MAP_ANONYMOUS };

static struct { uint32_t owner[PAGES]; uint8_t protection[PAGES]; } first;

void arena_reserve(struct arena *arenas, unsigned count)
{
	const uintptr_t giga = 1ul << 30; /* fixed places in the page tables */
	const uint32_t share = PAGES_OF_ALL / count, size = share < PAGES ? share : PAGES;
	char *all = mmap(NULL, (count + 2) * giga, PROT_NONE, ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (all == MAP_FAILED)
		fail("mmap");
	/* Below the first and above the last is room for what the kernel places later. */
	for (unsigned i = 0; i < count; i++) {
		arenas[i].start = (char *)(((uintptr_t)all & ~(giga - 1)) + (i + 2) * giga);
		arenas[i].pages = size;
		arenas[i].owner = i ? (uint32_t *)pages(size / 1024 + 1) : first.owner;
		arenas[i].protection = i ? (uint8_t *)pages(size / 4096 + 1) : first.protection;
	}
	if (munmap(all, (count + 2) * giga))
		fail("munmap");
}

void arena_clear(struct arena *a)
{
	if (munmap(a->start, (size_t)a->pages * PAGE))
		fail("munmap");
	memset(a->owner, 0, a->pages * sizeof(*a->owner));
	memset(a->protection, 0, a->pages);
	a->mappings = 0;
}

struct stretch arena_find(struct arena *a, uint32_t at)
{
	struct stretch s = { .length = 0 };

	for (uint32_t end = at + 64; at < end && at < a->pages - 1 && !a->owner[at];)
		at++;
	if (!a->owner[at])
		return s;
	s = (struct stretch){ .at = at, .prot = a->protection[at] };
	for (; s.length < MAPPING_PAGES && at < a->pages && a->owner[at] == a->owner[s.at]; at++)
		s.length++;
	return s;
}

static bool own(struct arena *a, struct stretch s, uint32_t mapping)
{
	for (uint32_t i = s.at; i < s.at + s.length; i++) {
		a->owner[i] = mapping;
		a->protection[i] = s.prot;
	}
	return true;
}

/* The C library's wrappers of these calls add nothing to them. */
bool arena_map(struct arena *a, struct stretch s)
{
	char *at = arena_page(a, s.at);
	void *got = mmap(at, (size_t)s.length * PAGE, s.prot, ANONYMOUS | MAP_FIXED, -1, 0);

	return got == at && own(a, s, ++a->mappings);
}

bool arena_unmap(struct arena *a, struct stretch s)
{
	return !munmap(arena_page(a, s.at), (size_t)s.length * PAGE) && own(a, s, 0);
}

bool arena_move(struct arena *a, struct stretch from, struct stretch to)
{
	const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
	size_t size = (size_t)from.length * PAGE, new_size = (size_t)to.length * PAGE;
	char *source = arena_page(a, from.at), *target = arena_page(a, to.at);

	return mremap(source, size, new_size, flags, target) == target && own(a, from, 0) &&
	       own(a, to, ++a->mappings);
}

bool arena_shrink(struct arena *a, struct stretch s, uint32_t length)
{
	struct stretch rest = { .at = s.at + length, .length = s.length - length };
	char *at = arena_page(a, s.at);

	return mremap(at, (size_t)s.length * PAGE, (size_t)length * PAGE, 0) == at && own(a, rest, 0);
}
