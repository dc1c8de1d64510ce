/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The running counts: a slot for each function that has run, and a total counted separately. */
#ifndef KTAX_COUNTERS_H
#define KTAX_COUNTERS_H

#include "qemu_api.h"
#include "symbols.h"

enum {
    KTAX_SLOTS = 65536,
    SLOT_USER = 0,   /* user mode */
    SLOT_KERNEL = 1, /* kernel code outside every symbol */
};

struct ktax_counters {
    uint64_t total;             /* every dispatch, if there is one vCPU */
    uint64_t insns[KTAX_SLOTS]; /* dispatches but REP iterations */
};

extern struct ktax_counters *ktax_counters; /* written by code that QEMU generates */
extern uint64_t ktax_reps[KTAX_SLOTS];      /* REP iterations */
extern uint64_t ktax_reps_total;
/* What the model of a machine sees too often to ask for the context each time. */
extern uint64_t ktax_accesses[KTAX_SLOTS];
extern uint64_t ktax_branches[KTAX_SLOTS];
extern int ktax_slots;                      /* slots in use */
extern bool ktax_slots_full;

bool ktax_counters_init(void);

/* Call it when the vCPU exists, before anything is translated. */
void ktax_counters_start(void);

/* The slot of a kernel function; makes one when it is new. NULL is code outside every symbol. */
int ktax_slot_of(struct ktax_function *function);
const char *ktax_slot_name(int slot);

/* A new slot of user mode, whose name is copied; SLOT_USER if there are too many. */
int ktax_slot_of_user(const char *name);

/* Dispatches so far, of all vCPUs. */
uint64_t ktax_total(void);

/* All dispatches of user mode so far, of this vCPU; if there is one, without REP iterations. */
uint64_t ktax_count_of_user(void);

/* How a stretch of instructions is counted. */
struct ktax_stretch_count {
    int slot;
    bool user;
    unsigned in_slot;
    unsigned in_total;
};

/*
 * Makes each dispatch of the instruction count. Register its callbacks before. `translator` is
 * QEMU's index of the vCPU that translates, if there are several, or -1 while it is not known.
 */
void ktax_count(struct qemu_plugin_insn *insn, struct ktax_stretch_count count, int translator);

/* The same with a block, of several vCPUs: adds, and calls if a counter is at least `limit`. */
void ktax_counters_add_to_block(struct qemu_plugin_tb *tb, uint64_t *to, uint64_t n,
                                int translator);
void ktax_counters_call_from(struct qemu_plugin_tb *tb, qemu_plugin_exec_fn fn, void *data,
                             uint64_t *of, uint64_t limit, int translator);

/* Copies at most `room` bytes of the instruction; returns how many. */
size_t ktax_insn_bytes(const struct qemu_plugin_insn *insn, uint8_t *to, size_t room);

#endif
