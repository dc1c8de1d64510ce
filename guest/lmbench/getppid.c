/* SPDX-License-Identifier: MIT */
/* The cheapest system call that still enters the kernel: entry, table, return. */
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

static int op(void)
{
	return syscall(SYS_getppid) < 0;
}

static void getppid_run(const struct order *o)
{
	measure(o, 1000, op, "calls");
}

WORKLOAD("getppid", getppid_run);
