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
    uint64_t total;             /* every dispatch */
    uint64_t insns[KTAX_SLOTS]; /* dispatches but REP iterations */
};

extern struct ktax_counters *ktax_counters; /* written by code that QEMU generates */
extern uint64_t ktax_reps[KTAX_SLOTS];      /* REP iterations */
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

/* All dispatches of user mode so far but REP iterations. */
uint64_t ktax_count_of_user(void);

/* Makes each dispatch of the instruction add `n`. Register its callbacks before. */
void ktax_count_total(struct qemu_plugin_insn *insn, unsigned n);
void ktax_count_slot(struct qemu_plugin_insn *insn, int slot, unsigned n);

/* Copies at most `room` bytes of the instruction; returns how many. */
size_t ktax_insn_bytes(const struct qemu_plugin_insn *insn, uint8_t *to, size_t room);

#endif
