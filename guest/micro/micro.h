/* SPDX-License-Identifier: MIT */
/* Small loops around one call, one program for each kind of thing that they touch. */
#ifndef KTAX_MICRO_H
#define KTAX_MICRO_H

#include "ktax.h"

/* The parameter `call` is an index: a program's table is in the order of `choices` in its TOML. */
struct micro {
	const char *name;
	int (*op)(void);      /* one operation; this and the next return 0 for a success */
	int (*prepare)(void); /* or NULL */
	void (*finish)(void); /* or NULL */
};

#define MICRO(O, WARM_UP, CALLS) \
	micro(O, WARM_UP, CALLS, sizeof(CALLS) / sizeof((CALLS)[0]))
void micro(const struct order *o, uint64_t warm_up, const struct micro *calls, size_t n);

int memory_file(uint64_t bytes); /* empty, and on tmpfs wherever this runs; -1 on failure */
int small_pages(void);           /* no huge ones, whatever the machine is set to */

#endif
