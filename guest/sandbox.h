/* SPDX-License-Identifier: MIT */
/* sandbox.c: a copy of this machine in which a program may do what it likes; for program.c. */
#ifndef KTAX_SANDBOX_H
#define KTAX_SANDBOX_H

#include "ktax.h"

/*
 * Goes on in a new process, in namespaces of its own: it sees the files of this machine, and what
 * it writes is in memory and goes with it. There is no network but loopback, and no other process.
 * The current directory is /work, too, and the process is there. `user` is whom the program runs
 * as; `scratch` is an empty directory.
 */
void sandbox_enter(const char *scratch, uid_t user);

#endif
