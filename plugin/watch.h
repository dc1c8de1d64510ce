/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Chooses the callbacks of each instruction. */
#ifndef KTAX_WATCH_H
#define KTAX_WATCH_H

#include "costly.h"
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

/* A callback before the instruction, and one at each of its memory accesses. */
void ktax_call(struct qemu_plugin_insn *insn, qemu_plugin_exec_fn fn, int data);
void ktax_call_at_access(struct qemu_plugin_insn *insn, qemu_plugin_mem_fn fn, int data);

/* May the context change at such an instruction, or does a slice end? */
bool ktax_watch_is_turn(enum ktax_kind kind);

/* Why kthreads or interrupts could not be kept apart, or NULL. */
const char *ktax_kthread_split_failed(void);
const char *ktax_interrupt_split_failed(void);

#endif
