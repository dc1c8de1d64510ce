/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Regions: what ran between the markers, by context and slot. */
#ifndef KTAX_REGION_H
#define KTAX_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "coherence.h"
#include "counters-table.h"
#include "slices.h"

/* The order is that of the profile's lines. */
enum ktax_context {
    CONTEXT_PROCESS,
    CONTEXT_INTERRUPT,
    CONTEXT_KTHREAD,
    CONTEXT_AWAITED, /* a kernel thread for which the processes wait; awaited.h */
    CONTEXT_COUNT,
    CONTEXT_PENDING = CONTEXT_COUNT, /* a task that may yet enter user mode */
};

/* How many columns there are in this run: those from COLUMN_MODEL on need the model of a machine. */
extern int ktax_columns;

/* A function below the one that called it; paths.h. */
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

/* A kind of costly instruction in a function; costly.h. */
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

#endif
