/* SPDX-License-Identifier: MIT */
/* opened.c: the files that a program names in its system calls, for program.c. */
#ifndef KTAX_OPENED_H
#define KTAX_OPENED_H

#include "ktax.h"

/*
 * Says each file that the program and its children name, as `opened`, `executed` or `missing`, as
 * their paths begin behind `root`. True: the program came to its end, as of tracer_run().
 */
bool opened_run(pid_t program, const char *root, int *ended);

#endif
