/* SPDX-License-Identifier: MIT */
/* Address space taken and given back at once, none of it used. */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "micro.h"

static const size_t large = 128 << 20;
static int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;
static size_t bytes;
static uintptr_t top;

static int map(void)
{
	long at = syscall(SYS_mmap, NULL, large, PROT_READ | PROT_WRITE, flags, fd, 0);

	return at == -1 || syscall(SYS_munmap, at, large);
}

static int of_file(void)
{
	flags = MAP_PRIVATE;
	fd = memory_file(large);
	return fd < 0;
}

/* A page more and a page less. */
static int up_and_down(void)
{
	return (uintptr_t)syscall(SYS_brk, top + PAGE) != top + PAGE ||
	       (uintptr_t)syscall(SYS_brk, top) != top;
}

/* The heap grows and shrinks. */
static int above_heap(void)
{
	top = (syscall(SYS_brk, 0) + 2ul * PAGE - 1) & -PAGE;
	return (uintptr_t)syscall(SYS_brk, top) != top;
}

/* A heap begins and ends: it cannot be joined to a last page of another protection. */
static int above_nothing(void)
{
	return above_heap() || mprotect((void *)(top - PAGE), PAGE, PROT_READ);
}

static int allocate(void)
{
	void *volatile at = malloc(bytes); /* else the compiler does without both calls */

	free(at);
	return !at;
}

/* Beyond every threshold: a mapping of its own. The allocator's header is one fault. */
static int malloc_large(void)
{
	bytes = large;
	return small_pages();
}

static int malloc_small(void)
{
	bytes = 1000;
	return 0;
}

static void micro_mappings_run(const struct order *o)
{
	static const struct micro calls[] = {
		{ "mmap1", map, NULL, NULL },
		{ "mmap2", map, of_file, NULL },
		{ "brk1", up_and_down, above_nothing, NULL },
		{ "brk2", up_and_down, above_heap, NULL },
		{ "malloc1", allocate, malloc_large, NULL },
		{ "malloc2", allocate, malloc_small, NULL },
	};

	MICRO(o, 100, calls);
}

WORKLOAD("micro-mappings", micro_mappings_run);
