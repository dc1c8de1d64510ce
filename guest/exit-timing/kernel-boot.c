/* SPDX-License-Identifier: MIT */
/* Nothing is left to do: the Region ended where init began. */
#include <errno.h>

#include "ktax.h"

static void kernel_boot_run(const struct order *o)
{
	(void)o;
	errno = ENOSYS;
	if (!in_guest || !counted)
		fail("the start of a kernel that already runs");
	region_ticks = boot_ticks;
	sig("boots", 1);
}

WORKLOAD("kernel-boot", kernel_boot_run);
