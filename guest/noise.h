/* SPDX-License-Identifier: MIT */
/* noise.c: what a program is given, for program.c. */
#ifndef KTAX_NOISE_H
#define KTAX_NOISE_H

#include "ktax.h"

void noise_begin(void); /* in the child, before it becomes the program */

/* Says each call. True: it came to its end, `ended` is what waitpid() says of it. */
bool noise_run(pid_t program, int *ended);

#endif
