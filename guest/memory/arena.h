/* SPDX-License-Identifier: MIT */
/* What mmap-stress does its calls to: 65536 pages of address space that belong to it alone. */
#ifndef KTAX_ARENA_H
#define KTAX_ARENA_H

#include <stdbool.h>
#include <stdint.h>

enum { ARENA_PAGES = 65536, MAPPING_PAGES = 8 };

/* A stretch of one mapping; length 0 where there is none. */
struct stretch { uint32_t at, length, prot; };

void arena_reserve(void);
void arena_clear(void);
char *arena_page(uint32_t n);
struct stretch arena_find(uint32_t at); /* the next mapped stretch, not far behind `at` */

/* Each is one system call; false where it failed. */
bool arena_map(struct stretch s);
bool arena_unmap(struct stretch s);
bool arena_move(struct stretch from, struct stretch to);
bool arena_shrink(struct stretch s, uint32_t length);

/* splitmix64: the random numbers of a C library differ between libraries */
static inline uint32_t below(uint64_t *state, uint32_t limit)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	z ^= z >> 31;
	return (z >> 32) * limit >> 32;
}

/* layout.c: what the kernel says is mapped in the arena now */
struct layout { uint64_t vmas, hash; };
struct layout arena_layout(void);

#endif
