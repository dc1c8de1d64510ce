/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ends the slice of the vCPU that executes, behind this block, and leaves the clock where it is.
 *
 * The API has no function for that. Most QEMUs export for their modules what they use themselves,
 * cpu_exit(); with it the next vCPU goes on at once. One that exports nothing has
 * qemu_plugin_update_ns(), which leaves work for the vCPU. To do it QEMU ends the slices of all
 * vCPUs, and wakes its other threads, which takes five times as long.
 */
#ifndef KTAX_YIELD_H
#define KTAX_YIELD_H

#include <stdbool.h>

/* False: this QEMU has no such function. */
bool ktax_yield_init(void);

/* Call it where a vCPU executes. */
void ktax_yield(void);

#endif
