/* SPDX-License-Identifier: MIT */
/*
 * The instruction at which the host stops the machine. When it does, QEMU's clock may jump to the
 * next timer or not, as QEMU's threads happen to run. So the program stays at one instruction until
 * a signal of its own timer: either way, the timers interrupt this instruction, at the same virtual
 * times. From there on two boots are the same, also for a kernel that takes random bits from the
 * time-stamp counter.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <sys/time.h>
#include <ucontext.h>

#include "freeze.h"

enum { FREEZE = 0x505, MICROSECONDS = 1000, JUMP_BYTES = 2 };

extern const char ktax_standstill[];

/* A timed guest may get the signal before it stands there; then the next one counts. */
static void go_on(int signal, siginfo_t *info, void *context)
{
	greg_t *at = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)signal, (void)info;
	if (*at == (greg_t)ktax_standstill)
		*at += JUMP_BYTES;
}

__attribute__((noinline, noclone)) void standstill(void)
{
	const struct timeval interval = { .tv_usec = MICROSECONDS };
	const struct sigaction action = { .sa_sigaction = go_on, .sa_flags = SA_SIGINFO };
	struct sigaction before;

	sigaction(SIGALRM, &action, &before);
	setitimer(ITIMER_REAL, &(struct itimerval){ interval, interval }, NULL);
	__asm__ volatile("out %0, %1\n"
			 ".global ktax_standstill\n"
			 "ktax_standstill: .byte 0xeb, 0xfe\n" /* jumps to itself */
			 :: "a"((unsigned char)1), "d"((unsigned short)FREEZE) : "memory");
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	sigaction(SIGALRM, &before, NULL);
}
