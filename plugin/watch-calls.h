/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Chooses the callbacks by which calls.h follows an instruction. */
#ifndef KTAX_WATCH_CALLS_H
#define KTAX_WATCH_CALLS_H

#include "decode.h"
#include "watch.h"

/*
 * Registers what an instruction of the kernel needs, before it is counted. `is_first`: of its
 * block. `target`: of the call or jump, if its bytes say that.
 */
void ktax_watch_calls(const struct ktax_insn *insn, bool is_first, enum ktax_flow flow,
                      uint64_t target);

#endif
