/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Regions: what ran between the markers, by context and slot. */
#ifndef KTAX_REGION_H
#define KTAX_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "coherence.h"
#include "slices.h"

/* The order is that of the profile's lines. */
enum ktax_context {
    CONTEXT_PROCESS,
    CONTEXT_INTERRUPT,
    CONTEXT_KTHREAD,
    CONTEXT_COUNT,
    CONTEXT_PENDING = CONTEXT_COUNT, /* a task that may yet enter user mode */
};

struct ktax_region {
    uint64_t total;
    int slots;
    /* [context * slots + slot] */
    uint64_t *insns;
    uint64_t *reps;
    uint64_t *waits;
    uint64_t *transfers;
    uint64_t *idles; /* [slot] */
    struct ktax_parallel parallel;
    struct ktax_lines lines;
};

enum { KTAX_REGIONS = 64 };
extern struct ktax_region ktax_regions[KTAX_REGIONS];
extern int ktax_region_count;
extern bool ktax_regions_full;

void ktax_region_begin(void);
void ktax_region_end(void);

/* Gives everything counted since the last flush to this context. Nothing to do outside a region. */
void ktax_flush(enum ktax_context context);

/* Time of several vCPUs that waited for another one in this slot. */
void ktax_region_wait(enum ktax_context context, int slot, uint64_t n);

/* A line that an instruction of this slot got from another CPU. */
void ktax_region_transfer(enum ktax_context context, int slot);

/* Gives what is pending to this context. */
void ktax_settle(enum ktax_context context);

#endif
