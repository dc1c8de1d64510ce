/* SPDX-License-Identifier: MIT */
/* What is kept of the Region, a whole Region around one function, and fresh memory. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "ktax.h"

uint64_t region_start, region_ticks, region_faults, boot_ticks;

/*
 * Runs the operation until one fails. Warm-up and Region use this one loop: an inlined copy could
 * be on a page that is touched for the first time inside the Region.
 */
static __attribute__((noinline, noclone)) uint64_t repeat(uint64_t times, int (*op)(void))
{
	uint64_t done = 0;

	while (done < times && op() == 0)
		done++;
	return done;
}

void measure(const struct order *o, uint64_t warm_up, int (*op)(void), const char *what)
{
	uint64_t done;

	errno = 0;
	if (repeat(warm_up, op) != warm_up)
		fail("warm-up");
	region_begin();
	done = repeat(o->ops, op);
	region_end();
	sig(what, done);
	sig("failed", o->ops - done);
}

uint64_t faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

char *pages(uint64_t n)
{
	const uintptr_t huge = 2ul << 20;
	size_t size = n * PAGE + huge;
	char *all = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/* 4 KiB pages at a fixed place in the page tables give the same faults on every kernel. */
	if (all == MAP_FAILED)
		fail("mmap");
	if (madvise(all, size, MADV_NOHUGEPAGE) && errno != EINVAL) /* EINVAL: no THP to avoid */
		fail("madvise");
	return (char *)(((uintptr_t)all + huge - 1) & ~(huge - 1));
}
