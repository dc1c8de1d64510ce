/* SPDX-License-Identifier: MIT */
/* Under icount the TSC counts instructions, so waiting is exact to the instruction. */
#include "guest.h"

/* Moves the timer tick: executes exactly two instructions for each iteration. */
void delay(uint64_t iterations)
{
	if (iterations)
		__asm__ volatile("1: dec %0; jnz 1b" : "+r"(iterations)::"cc");
}
