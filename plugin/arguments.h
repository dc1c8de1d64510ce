/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What QEMU gives the plugin: symbols=FILE (optional), out=FILE,
 * region=boot (for a machine that starts with the plugin: counts from start_kernel to init),
 * archive=FILE and functions=FILE (both or none: the user's programs),
 * quantum=N, contended=N, jitter=SEED and limit=N (of several vCPUs), coherence=FILE (the kernel's
 * variables), machine=FILE (a model of one), paths=no (calls are not followed), draw=FILE (for a
 * test of paths).
 */
#ifndef KTAX_ARGUMENTS_H
#define KTAX_ARGUMENTS_H

#include <stdbool.h>

/* False: they are refused, which says why. */
bool ktax_arguments_read(int argc, char **argv);

/* Prints it, and is false. */
bool ktax_refuse(const char *why);

#endif
