/* SPDX-License-Identifier: MIT */
/* noise-calls.c: the system calls that give a program something, for noise.c. */
#ifndef KTAX_NOISE_CALLS_H
#define KTAX_NOISE_CALLS_H

#include <stddef.h>
#include <stdint.h>

/* A number of its own for reading the time-stamp counter. */
enum { CALLS = 512, TSC = CALLS - 1 };

/* What counts besides the returned value: which argument points to the data, and how much it is; 0:
   as much as the call returns. */
struct output {
	int number;
	int argument;
	size_t size;
};

const struct output *output_of(uint64_t number); /* NULL: only the returned value counts */

#endif
