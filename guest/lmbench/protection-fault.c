/* SPDX-License-Identifier: MIT */
/* Store to a read-only page, take SIGSEGV in a handler, go on behind the store. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "ktax.h"

static volatile uint64_t caught;
static char *page;

/*
 * A handler that only returns faults again for ever, and the number of faults is then not in
 * our hands. This one goes on at the address that the store left in RDX: one store, one fault.
 */
static void handler(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

	if ((char *)info->si_addr != page)
		signal(number, SIG_DFL); /* a bug of ours: die of the next one */
	registers[REG_RIP] = registers[REG_RDX];
	caught++;
}

static int op(void)
{
	uint64_t before = caught;

	__asm__ volatile("lea 1f(%%rip), %%rdx; movb $1, (%0); 1:" ::"r"(page) : "rdx", "memory");
	return caught != before + 1;
}

static void protection_fault_run(const struct order *o)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

	page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		fail("mmap");
	if (sigaction(SIGSEGV, &action, NULL))
		fail("sigaction");
	measure(o, 100, op, "signals");
}

WORKLOAD("protection-fault", protection_fault_run);
