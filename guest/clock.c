/* SPDX-License-Identifier: MIT */
/* Under icount the TSC is the number of instructions: time is spent to the instruction. */
#include "guest.h"

/* Moves the timer tick: two instructions for each iteration and nothing else. */
void delay(uint64_t iterations)
{
	if (iterations)
		__asm__ volatile("1: dec %0; jnz 1b" : "+r"(iterations)::"cc");
}

/*
 * Returns when the TSC has the value `end`, to the instruction. Each round waits for half of
 * what is left, because an interrupt may take its time in between.
 */
void wait_until(uint64_t end)
{
	int64_t left;

	while ((left = end - ticks()) > 10000)
		__asm__ volatile("1: dec %0; jnz 1b" : "=r"(left) : "0"(left / 4) : "cc");
	left = end - ticks();
	if (left > 0) /* two instructions a turn, and a NOP where the number is odd */
		__asm__ volatile("shr %0; jnc 1f; nop; 1: dec %0; jg 1b" : "+r"(left)::"cc");
}
