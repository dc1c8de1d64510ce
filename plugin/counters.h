/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The running counts of each function, and the regions in which they end up. */
#ifndef KTAX_COUNTERS_H
#define KTAX_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coherence.h"
#include "counters-table.h"
#include "cpus.h"
#include "qemu_api.h"
#include "symbols.h"

/*
 * Memory for what callbacks are told, which is kept as long as QEMU runs. Most of it is read each
 * time a block of code is executed, so it is where the host needs few translations.
 */

/* Zeroed, in lines of the host's cache of its own. NULL: there is not enough memory. */
void *ktax_record(size_t bytes);

/* The running counts: a slot for each function that has run, and a total counted separately. */

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
                             uint64_t *counter, uint64_t limit, int translator);

/* Copies at most `room` bytes of the instruction; returns how many. */
size_t ktax_insn_bytes(const struct qemu_plugin_insn *insn, uint8_t *to, size_t room);

/* Regions: what ran between the markers, by context and slot. */

/* The order is that of the profile's lines. */
enum ktax_context {
    CONTEXT_PROCESS,
    CONTEXT_INTERRUPT,
    CONTEXT_KTHREAD,
    CONTEXT_AWAITED, /* a kernel thread for which the processes wait; context.h */
    CONTEXT_COUNT,
    CONTEXT_PENDING = CONTEXT_COUNT, /* a task that may yet enter user mode */
};

/* Columns of this run: those from COLUMN_MODEL on need the model of a machine. */
extern int ktax_columns;

/* A function below the one that called it; calls.h. */
struct ktax_path_counts {
    uint64_t insns;
    uint64_t calls;
    uint64_t reps;
};

enum { KTAX_PATH_CHILDREN = 8 };

/* What a process's call needs is in one line of the host's cache. */
struct ktax_path {
    _Alignas(64) uint32_t parent; /* comes before it */
    int depth;                    /* how many are above it, the root, too */
    int slot;
    uint32_t lately[KTAX_PATH_CHILDREN]; /* by slot, paths below it that were asked for; 0: none */
    struct ktax_path_counts counts[CONTEXT_COUNT];
};

/* A kind of costly instruction in a function. */
struct ktax_costly_site {
    int slot;
    int kind;
    uint64_t msr; /* the register of WRMSR or RDMSR, and 1; 0: it is not known */
    uint64_t counts[CONTEXT_COUNT];
};

struct ktax_region {
    uint64_t total;
    int slots;
    uint64_t *counts[COLUMN_COUNT]; /* [context * slots + slot]; NULL: no such column */
    struct ktax_parallel parallel;
    struct ktax_lines lines;
    struct ktax_path *paths;
    uint32_t path_count;
    struct ktax_costly_site *costly;
    int costly_count;
};

enum { KTAX_REGIONS = 64 };
extern struct ktax_region ktax_regions[KTAX_REGIONS];
extern int ktax_region_count;
extern bool ktax_regions_full;

void ktax_region_begin(void);
void ktax_region_end(const struct ktax_parallel *parallel);

/* Gives everything counted since the last flush to this context. Nothing to do outside a region. */
void ktax_flush(enum ktax_context context);

/* More of a column that generated code does not count, of the vCPU that `ktax_cpu` is. */
void ktax_region_add(enum ktax_column column, enum ktax_context context, int slot, uint64_t n);

/* Gives what is pending to this context. */
void ktax_settle(enum ktax_context context);

/*
 * Instructions that cost many times what others cost, by function and context. Each is counted when
 * it is dispatched.
 */

/* Whether they are counted at all. */
extern bool ktax_costly_counted;

/* Counts each dispatch of the instruction, in its slot. */
void ktax_costly_watch(struct qemu_plugin_insn *insn, enum ktax_costly kind, int slot);

/* Counts one that is known by what it accesses. */
void ktax_costly_count(enum ktax_costly kind, int slot);

/* Why not all could be counted, or NULL. */
const char *ktax_costly_split_failed(void);

/*
 * REP string instructions. Under icount QEMU dispatches each iteration, so the second and further
 * dispatches of one such instruction must be told from new ones.
 */

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
