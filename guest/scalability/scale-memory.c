/* SPDX-License-Identifier: MIT */
/* An address space: page faults in a mapping of each worker, and mappings that come and go. */
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "scale.h"

enum { FAULTS = 128 };

static char *areas[SCALE_MAX];
static unsigned faulted[SCALE_MAX];

/* A page that nobody may touch is around each: neighbours would become one mapping. */
int scale_prepare_faults(unsigned worker)
{
	(void)worker;
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		return -1;
	for (unsigned i = 0; i < SCALE_MAX; i++) {
		areas[i] = mmap(NULL, (FAULTS + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (areas[i] == MAP_FAILED)
			return -1;
		areas[i] += PAGE;
		if (mprotect(areas[i], FAULTS * PAGE, PROT_READ | PROT_WRITE))
			return -1;
	}
	return 0;
}

int scale_fault(unsigned worker)
{
	unsigned page = faulted[worker]++ % FAULTS;

	*(volatile char *)(areas[worker] + page * PAGE) = 1;
	return page == FAULTS - 1 ? madvise(areas[worker], FAULTS * PAGE, MADV_DONTNEED) : 0;
}

int scale_map(unsigned worker)
{
	(void)worker;
	long page = syscall(SYS_mmap, NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return page < 0 ? -1 : (int)syscall(SYS_munmap, page, PAGE);
}
