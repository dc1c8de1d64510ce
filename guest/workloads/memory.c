/* SPDX-License-Identifier: MIT */
/* Address space: mapped, moved, unmapped at random by threads, and touched. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools.h"

/* For mmap-stress: address space that belongs to one thread alone. */
enum { MAPPING_PAGES = 8 };

struct arena {
	char *start;
	uint32_t pages, mappings;
	uint32_t *owner; /* which mapping a page is part of; 0 is a hole */
	uint8_t *protection;
};

/* A stretch of one mapping; length 0 where there is none. */
struct stretch { uint32_t at, length, prot; };

static inline char *arena_page(const struct arena *a, uint32_t n)
{
	return a->start + (size_t)n * 4096;
}

/*
 * An arena stays a hole between the calls, so nothing else may be mapped into it meanwhile. The
 * tables follow what is mapped, because an mremap of random pages would mostly hit several
 * mappings or none, and then measure how fast the kernel says no.
 */

/* The kernel allows a process 65530 mappings; an arena of 65536 pages comes to 9731. */
enum { PAGES = 65536, PAGES_OF_ALL = 4 * PAGES, ANONYMOUS = MAP_PRIVATE | MAP_ANONYMOUS };

static struct { uint32_t owner[PAGES]; uint8_t protection[PAGES]; } first;

static void arena_reserve(struct arena *arenas, unsigned count)
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

static void arena_clear(struct arena *a)
{
	if (munmap(a->start, (size_t)a->pages * PAGE))
		fail("munmap");
	memset(a->owner, 0, a->pages * sizeof(*a->owner));
	memset(a->protection, 0, a->pages);
	a->mappings = 0;
}

/* The next stretch, not far behind `at`. */
static struct stretch arena_find(struct arena *a, uint32_t at)
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

/* Each is one system call, to which the C library's wrapper adds nothing; false where it failed. */
static bool arena_map(struct arena *a, struct stretch s)
{
	char *at = arena_page(a, s.at);
	void *got = mmap(at, (size_t)s.length * PAGE, s.prot, ANONYMOUS | MAP_FIXED, -1, 0);

	return got == at && own(a, s, ++a->mappings);
}

static bool arena_unmap(struct arena *a, struct stretch s)
{
	return !munmap(arena_page(a, s.at), (size_t)s.length * PAGE) && own(a, s, 0);
}

static bool arena_move(struct arena *a, struct stretch from, struct stretch to)
{
	const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
	size_t size = (size_t)from.length * PAGE, new_size = (size_t)to.length * PAGE;
	char *source = arena_page(a, from.at), *target = arena_page(a, to.at);

	return mremap(source, size, new_size, flags, target) == target && own(a, from, 0) &&
	       own(a, to, ++a->mappings);
}

static bool arena_shrink(struct arena *a, struct stretch s, uint32_t length)
{
	struct stretch rest = { .at = s.at + length, .length = s.length - length };
	char *at = arena_page(a, s.at);

	return mremap(at, (size_t)s.length * PAGE, (size_t)length * PAGE, 0) == at && own(a, rest, 0);
}

struct layout { uint64_t vmas, hash; };

static char buffer[4096];
static ssize_t filled, taken;

static int get(int fd)
{
	if (taken == filled) {
		taken = 0;
		filled = read(fd, buffer, sizeof(buffer));
	}
	return filled > 0 ? buffer[taken++] : -1;
}

/* A hexadecimal number and the character behind it. */
static uint64_t address(int fd)
{
	uint64_t value = 0;

	for (int c; (c = get(fd)) > ' ' && c != '-';)
		value = value * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
	return value;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 0x100000001b3; /* FNV-1a, a word at a time */
}

/*
 * Counts the VMAs as the kernel has them, but hashes what a program can tell apart: neighbours
 * of one protection are one area there. Whether the kernel merges them is the kernel's choice.
 */
static struct layout arena_layout(const struct arena *a)
{
	const uint64_t first = (uintptr_t)a->start, last = first + (uint64_t)a->pages * PAGE;
	struct layout layout = { .hash = 0xcbf29ce484222325 };
	uint64_t start, area_end = first, area_prot = 0;
	int fd = open("/proc/self/maps", O_RDONLY);

	if (fd < 0)
		fail("open /proc/self/maps");
	while ((start = address(fd))) {
		uint64_t end = address(fd);
		uint64_t prot = (get(fd) == 'r') + 2 * (get(fd) == 'w');
		for (int c = 0; c >= 0 && c != '\n';)
			c = get(fd);
		if (start < first || start >= last)
			continue;
		layout.vmas++;
		if (start != area_end || prot != area_prot)
			layout.hash = mix(mix(mix(layout.hash, area_end - first), start - first), prot);
		area_end = end;
		area_prot = prot;
	}
	layout.hash = mix(layout.hash, area_end - first) >> 1; /* fits an integer of TOML */
	close(fd);
	return layout;
}

/* Pseudo-random mmap, munmap and mremap of 1 to 8 pages, and now and then a touch. */
/* One thread of mmap-stress, and what it did. */
struct stress {
	uint64_t seed, state;
	struct { uint64_t calls, mmap, munmap, mremap, failed, skipped, touches; } did;
	struct arena *arena;
} __attribute__((aligned(64)));

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

/* From an empty arena and the same seed, so that a warm-up leaves no trace in what follows. */
static void stress_steps(struct stress *me, uint64_t calls)
{
	me->state = me->seed;
	memset(&me->did, 0, sizeof(me->did));
	while (me->did.calls < calls)
		step(me);
}

/*
 * A thread or several that stress the one memory map that they share. Each has an arena and a seed
 * of its own, so that what each does depends on nothing; they meet only in the kernel.
 */
enum { THREADS_MAX = 64 };

static struct arena arenas[THREADS_MAX];
static struct stress all[THREADS_MAX];
static uint64_t ops;
static pthread_barrier_t prepared, begin;

static void warm_up(struct stress *me)
{
	stress_steps(me, 1000);
	arena_clear(me->arena);
}

static void work(unsigned n)
{
	warm_up(&all[n]);
	pthread_barrier_wait(&prepared);
	pthread_barrier_wait(&begin);
	stress_steps(&all[n], ops);
}

static void start(unsigned threads)
{
	pthread_barrier_init(&prepared, NULL, threads + 1);
	pthread_barrier_init(&begin, NULL, threads + 1);
	team_start(threads, work);
	pthread_barrier_wait(&prepared);
}

static void results(unsigned threads)
{
	struct stress sum = { .seed = 0 };
	struct layout layout;
	uint64_t vmas = 0;

	for (unsigned i = 0; i < threads; i++) {
		sum.did.calls += all[i].did.calls;
		sum.did.mmap += all[i].did.mmap;
		sum.did.munmap += all[i].did.munmap;
		sum.did.mremap += all[i].did.mremap;
		sum.did.failed += all[i].did.failed;
		sum.did.skipped += all[i].did.skipped;
		sum.did.touches += all[i].did.touches;
		layout = arena_layout(&arenas[i]);
		vmas += layout.vmas;
	}
	sig("calls", sum.did.calls);
	sig("mmap", sum.did.mmap);
	sig("munmap", sum.did.munmap);
	sig("mremap", sum.did.mremap);
	sig("failed", sum.did.failed);
	sig("skipped", sum.did.skipped);
	sig("touches", sum.did.touches);
	sig("vmas", vmas);
	if (threads == 1)
		sig("layout-hash", layout.hash);
}

static void mmap_stress_run(const struct order *o)
{
	const uint64_t threads = param(o, "threads", 1);

	errno = EINVAL;
	if (!threads || threads > THREADS_MAX)
		fail("threads");
	ops = o->ops;
	arena_reserve(arenas, threads);
	for (unsigned i = 0; i < threads; i++)
		all[i] = (struct stress){ .seed = 1 + i, .arena = &arenas[i] };
	if (threads > 1)
		start(threads);
	else /* in the main thread, so that there is no other */
		warm_up(all);
	region_begin();
	if (threads > 1) {
		pthread_barrier_wait(&begin);
		team_join();
	} else {
		stress_steps(all, ops);
	}
	region_end();
	sig("faults", region_faults);
	results(threads);
}

WORKLOAD("mmap-stress", mmap_stress_run);

/* Map `pages` anonymous pages, store to each of them, unmap them. */
static uint64_t size;

static int map_touch_unmap(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *map = (char *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (map == MAP_FAILED)
		return 1;
	for (uint64_t at = 0; at < size; at += PAGE)
		*(volatile char *)(map + at) = 1;
	return syscall(SYS_munmap, map, size) != 0;
}

static void mmap_touch_munmap_run(const struct order *o)
{
	size = param(o, "pages", 16) * PAGE;
	measure(o, 50, map_touch_unmap, "maps");
	/* A kernel that maps larger folios here takes fewer faults: that is different work. */
	sig("faults", region_faults);
}

WORKLOAD("mmap-touch-munmap", mmap_touch_munmap_run);

/*
 * First store to each 4 KiB page of a mapping that is left to the kernel's own policy. The mapping
 * begins and ends on a 2 MiB boundary, so that huge pages fit, and how many faults that takes is
 * seen and not demanded.
 */
enum { HUGE = 2 << 20 };

static char *next;

static int touch_next(void)
{
	*(volatile char *)next = 1;
	next += PAGE;
	return 0;
}

static void touch_run(const struct order *o)
{
	const uint64_t warm_up = HUGE / PAGE;
	size_t size = (warm_up + o->ops) * PAGE + HUGE;
	char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		fail("mmap");
	next = (char *)(((uintptr_t)map + HUGE - 1) & ~(HUGE - 1ul));
	measure(o, warm_up, touch_next, "touches");
	value("faults", region_faults);
}

WORKLOAD("touch", touch_run);
