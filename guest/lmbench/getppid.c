/* SPDX-License-Identifier: MIT */
/*
 * The cheapest system calls that still enter the kernel: entry, table, return. It is the bare
 * instruction, because what the kernel does against speculation makes the CPU forget who called
 * whom: each return after it is mispredicted, and syscall() would add one, natively 5 to 7 % of
 * this row.
 */
#include <sys/syscall.h>

#include "ktax.h"

static inline int call(long number)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(number) : "rcx", "r11", "memory");
	return result < 0;
}

static int getppid_op(void)
{
	return call(SYS_getppid);
}

static int getuid_op(void)
{
	return call(SYS_getuid);
}

static void getppid_run(const struct order *o)
{
	measure(o, 1000, getppid_op, "calls");
}

static void getuid_run(const struct order *o)
{
	measure(o, 1000, getuid_op, "calls");
}

WORKLOAD("getppid", getppid_run);
WORKLOAD("getuid", getuid_run);
