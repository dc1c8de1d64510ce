/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Chooses the callbacks of each instruction. */
#ifndef KTAX_WATCH_H
#define KTAX_WATCH_H

#include "counters.h"
#include "decode.h"
#include "qemu_api.h"
#include "symbols.h"

struct ktax_insn {
    struct qemu_plugin_insn *insn;
    uint64_t address;
    enum ktax_kind kind;
    enum ktax_costly costly;
    struct ktax_function *function; /* NULL outside every symbol */
    int slot;
};

/* How an instruction is watched, and so how it is counted. */
enum ktax_watch {
    WATCH_NOTHING,
    WATCH_CALLBACK, /* a callback before it */
    WATCH_COUNTED,  /* a callback that counts it in its slot */
    WATCH_MARKER,   /* a callback; not to be counted at all */
};

/*
 * Registers what must be called when the instruction is dispatched. Its counters are registered
 * after this, so that a callback sees the counts without the instruction.
 */
enum ktax_watch ktax_watch_user(const struct ktax_insn *insn);
enum ktax_watch ktax_watch_kernel(const struct ktax_insn *insn);

/*
 * Registers that by which calls.h follows an instruction of the kernel, before it is counted.
 * `is_first`: of its block. `target`: of the call or jump, if its bytes say that.
 */
void ktax_watch_calls(const struct ktax_insn *insn, bool is_first, enum ktax_flow flow,
                      uint64_t target);

/* May the context change at such an instruction, or does a slice end? */
bool ktax_watch_is_turn(enum ktax_kind kind);

/* Why kthreads or interrupts could not be kept apart, or NULL. */
const char *ktax_kthread_split_failed(void);
const char *ktax_interrupt_split_failed(void);

/*
 * Where the plugin thinks that a process is in the kernel, at instructions that are drawn at
 * random, with its registers and its stack: a test unwinds that in the kernel's own way.
 */

/* Writes to this new file. False: it cannot be made, or this QEMU shows no registers or memory. */
bool ktax_draw_open(const char *path);

/* Call it when the vCPU exists. */
void ktax_draw_start(void);

/* May draw the instruction, if a file is open. Register what moves the vCPU before. */
void ktax_draw_watch(const struct ktax_insn *insn);

/* At the end. */
void ktax_draw_close(void);

#endif
