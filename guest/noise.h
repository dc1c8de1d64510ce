/* SPDX-License-Identifier: MIT */
/* noise.c: what makes a program not repeat, for program.c. */
#ifndef KTAX_NOISE_H
#define KTAX_NOISE_H

#include "ktax.h"

void noise_begin(void); /* in the child, before it becomes the program */

/* Run 0 or 1. True: it came to its end, `ended` is what waitpid() says of it. */
bool noise_run(pid_t program, int which, int *ended);
void noise_say(void); /* what the two had differently */

#endif
