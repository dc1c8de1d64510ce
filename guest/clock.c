/* SPDX-License-Identifier: MIT */
/* Under icount the TSC counts instructions, so waiting is exact to the instruction. */
#include "guest.h"

/* Moves the timer tick: executes exactly two instructions for each iteration. */
void delay(uint64_t iterations)
{
	if (iterations)
		__asm__ volatile("1: dec %0; jnz 1b" : "+r"(iterations)::"cc");
}

/*
 * Returns when the TSC has exactly the value `end`. Each round waits for half of the remaining
 * time, because an interrupt may take some of it.
 */
void wait_until(uint64_t end)
{
	int64_t left;

	while ((left = end - ticks()) > 10000)
		__asm__ volatile("1: dec %0; jnz 1b" : "=r"(left) : "0"(left / 4) : "cc");
	left = end - ticks();
	if (left > 0) /* two instructions a turn, and a NOP if the number is odd */
		__asm__ volatile("shr %0; jnc 1f; nop; 1: dec %0; jg 1b" : "+r"(left)::"cc");
}
