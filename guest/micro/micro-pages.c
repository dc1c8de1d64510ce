/* SPDX-License-Identifier: MIT */
/*
 * One page of a mapping after the other: a first store to it (micro-faults), or a store, its end
 * and a load (micro-flush). After the last page a new mapping takes the place of the old one, so
 * that any number of operations goes.
 */
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "micro.h"

static char *first, *next;
static uint64_t size;
static int fd, flags;

static int fault(void)
{
	if (next == first + size) {
		if (syscall(SYS_munmap, first, size) ||
		    syscall(SYS_mmap, first, size, PROT_READ | PROT_WRITE, flags, fd, 0) != (long)first)
			return 1;
		next = first;
	}
	*(volatile char *)next = 1;
	next += PAGE;
	return 0;
}

static int flush(void)
{
	if (fault() || syscall(SYS_madvise, next - PAGE, PAGE, MADV_DONTNEED))
		return 1;
	/* Only of a shared page does the file know. */
	return *(volatile char *)(next - PAGE) != !!(flags & MAP_SHARED);
}

static int mapping(int kind, int file)
{
	fd = file;
	flags = kind | MAP_FIXED;
	first = pages(size / PAGE);
	next = first + size; /* these pages were only to find a place */
	return small_pages();
}

static int anonymous(void)
{
	return mapping(MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static int private_file(void)
{
	return mapping(MAP_PRIVATE, memory_file(size));
}

static int shared_file(void)
{
	return mapping(MAP_SHARED, memory_file(size));
}

static const struct micro faults_calls[] = {
	{ "page-fault1", fault, anonymous, NULL },
	{ "page-fault2", fault, private_file, NULL },
	{ "page-fault3", fault, shared_file, NULL },
};

static const struct micro flush_calls[] = {
	{ "tlb-flush1", flush, private_file, NULL },
	{ "tlb-flush2", flush, anonymous, NULL },
	{ "tlb-flush3", flush, shared_file, NULL },
};

/* Three mappings: the first fills the file, by the third its pages count as in use. */
static uint64_t warm_up(const struct order *o)
{
	size = param(o, "mib", 4) << 20;
	return 3 * size / PAGE;
}

static void micro_faults_run(const struct order *o)
{
	MICRO(o, warm_up(o), faults_calls);
	sig("faults", region_faults);
}

static void micro_flush_run(const struct order *o)
{
	MICRO(o, warm_up(o), flush_calls);
}

WORKLOAD("micro-faults", micro_faults_run);
WORKLOAD("micro-flush", micro_flush_run);
