/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * REP string instructions. Under icount QEMU dispatches each iteration, so the second and further
 * dispatches of one such instruction must be told from new ones.
 */
#ifndef KTAX_REP_H
#define KTAX_REP_H

#include <stdint.h>

#include "costly.h"
#include "qemu_api.h"

/* Identifies a REP instruction by its address and its slot. Never 0 for code that can run. */
uint64_t ktax_rep_site(uint64_t address, int slot);

/*
 * What must be called with that at each dispatch of a REP instruction. It counts the dispatch in
 * its slot, and a start also among the costly instructions, if it is of such a kind.
 */
qemu_plugin_exec_fn ktax_rep_callback(enum ktax_costly kind);

/* The REP instruction that the very last dispatch was, or 0. */
uint64_t ktax_rep_current(void);

/* This REP instruction continues after the instruction that is dispatched now. */
void ktax_rep_resume(uint64_t site);

#endif
