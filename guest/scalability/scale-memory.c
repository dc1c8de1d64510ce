/* SPDX-License-Identifier: MIT */
/* An address space: page faults in a mapping of each worker, and mappings that come and go. */
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "scale.h"

enum { FAULTS = 128 };

/* Of each worker, in a cache line of its own. */
static struct own {
	char *area;
	unsigned faulted;
} __attribute__((aligned(64))) owns[SCALE_MAX];

/* A page that nobody may touch is around each: neighbours would become one mapping. */
int scale_prepare_faults(unsigned worker)
{
	(void)worker;
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		return -1;
	for (unsigned i = 0; i < SCALE_MAX; i++) {
		owns[i].area = mmap(NULL, (FAULTS + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (owns[i].area == MAP_FAILED)
			return -1;
		owns[i].area += PAGE;
		if (mprotect(owns[i].area, FAULTS * PAGE, PROT_READ | PROT_WRITE))
			return -1;
	}
	return 0;
}

int scale_fault(unsigned worker)
{
	struct own *own = &owns[worker];
	unsigned page = own->faulted++ % FAULTS;

	*(volatile char *)(own->area + page * PAGE) = 1;
	return page == FAULTS - 1 ? madvise(own->area, FAULTS * PAGE, MADV_DONTNEED) : 0;
}

int scale_map(unsigned worker)
{
	(void)worker;
	long page = syscall(SYS_mmap, NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return page < 0 ? -1 : (int)syscall(SYS_munmap, page, PAGE);
}
