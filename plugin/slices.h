/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Schedules several vCPUs. QEMU decides in which order they execute, and this for how long: a
 * quantum of instructions, or to where the vCPU itself waits.
 */
#ifndef KTAX_SLICES_H
#define KTAX_SLICES_H

#include "rounds.h"

/* In context.c: another vCPU goes on, and this one waits at an instruction of that slot. */
HOOK void ktax_context_leave(const struct ktax_cpu *next);
HOOK void ktax_context_wait(int slot, uint64_t n);
/* In report.c: the time of deadline.h is over. Ends QEMU. */
HOOK void ktax_report_over(void);

/* False: this QEMU cannot end a slice. */
bool ktax_slices_init(void);

/*
 * Registers what a block needs, before its instructions are counted. `slot` is that of its first
 * one; `is_turn` if the context may change in it, so that it must be certain who executes. Returns
 * QEMU's index of the vCPU that translates, or -1 while that is not known.
 */
int ktax_slices_watch(struct qemu_plugin_tb *tb, int slot, bool is_turn);

/*
 * From here on all slices follow from the quantum and the seed, whatever was before. No other vCPU
 * may execute yet.
 */
void ktax_slices_restart(void);

/* At a PAUSE, at a HLT. */
void ktax_slices_pause(int slot);
void ktax_slices_halt(int slot);

/* At the markers. */
void ktax_slices_begin(void);
void ktax_slices_end(struct ktax_parallel *to);

#endif
