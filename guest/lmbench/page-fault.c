/* SPDX-License-Identifier: MIT */
/*
 * First store to a fresh anonymous 4 KiB page. One operation is one fault: all pages are mapped
 * before the Region and stay until the end, so that nothing but faults is counted.
 */
#include "ktax.h"

static char *next;

static int op(void)
{
	*(volatile char *)next = 1;
	next += PAGE;
	return 0;
}

static void page_fault_run(const struct order *o)
{
	const uint64_t warm_up = 512; /* one page table; the Region begins with a new one */

	next = pages(warm_up + o->ops);
	measure(o, warm_up, op, "touches");
	sig("faults", region_faults);
}

WORKLOAD("page-fault", page_fault_run);
