/* SPDX-License-Identifier: MIT */
/*
 * The cheapest system call that still enters the kernel: entry, table, return. It is the bare
 * instruction, because what the kernel does against speculation makes the CPU forget who called
 * whom: each return after it is mispredicted, and syscall() would add one, natively 5 to 7 % of
 * this row.
 */
#include <sys/syscall.h>

#include "ktax.h"

static int op(void)
{
	long parent;

	__asm__ volatile("syscall" : "=a"(parent) : "a"(SYS_getppid) : "rcx", "r11", "memory");
	return parent < 0;
}

static void getppid_run(const struct order *o)
{
	measure(o, 1000, op, "calls");
}

WORKLOAD("getppid", getppid_run);
