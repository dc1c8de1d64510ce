/* SPDX-License-Identifier: MIT */
/* One call, made on several CPUs at once. */
#ifndef KTAX_SCALE_H
#define KTAX_SCALE_H

#include "ktax.h"

enum { SCALE_MAX = 32 };

/*
 * Threads share what is prepared once; processes prepare it themselves. Both functions return 0 for
 * a success.
 */
struct scale_call {
	const char *name;
	int (*prepare)(unsigned worker); /* or NULL */
	int (*op)(unsigned worker);
};

/* The parameter `call` is an index into it: it is in the order of `choices` in scale.toml. */
extern const struct scale_call scale_calls[];
extern const unsigned scale_calls_count;

/* scale-memory.c, scale-files.c; the others are in scale-calls.c */
int scale_prepare_faults(unsigned worker);
int scale_fault(unsigned worker);
int scale_map(unsigned worker);
int scale_prepare_file(unsigned worker);
int scale_dup(unsigned worker);
int scale_open(unsigned worker);
int scale_create(unsigned worker);
int scale_prepare_pipe(unsigned worker);
int scale_prepare_unix(unsigned worker);
int scale_byte(unsigned worker);

#endif
