/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Call paths: a tree of functions, each below the one that called it, and what was dispatched in
 * each place. calls.h finds out where that is.
 */
#ifndef KTAX_PATHS_H
#define KTAX_PATHS_H

#include <stdbool.h>
#include <stdint.h>

#include "counters.h"
#include "region.h"

enum {
    PATH_ROOT = 0,            /* the first one, and no function */
    /* As slots: what is counted in a place as if it were called there. */
    PATH_COSTLY = KTAX_SLOTS,  /* one of costly.h */
    PATH_WAIT = 2 * KTAX_SLOTS, /* an instruction's time that a vCPU waited for another one */
    PATH_IDLE,                 /* and that it was idle since its process left it there */
};

/* Not of a boot: its first code has stacks of its own, and calls that are patched while it runs. */
extern bool ktax_paths_followed;

enum { KTAX_PATHS = 1 << 20 };

/* All of them, and whether there were more than fit. */
extern struct ktax_path ktax_paths[KTAX_PATHS];
extern uint32_t ktax_path_count;
extern bool ktax_paths_full;

uint32_t ktax_paths_find(uint32_t parent, int slot);
struct ktax_path_counts *ktax_paths_pending(uint32_t path);

/* The place of a function below another place; the other place itself if there are too many. */
static inline uint32_t ktax_paths_child(uint32_t parent, int slot)
{
    uint32_t path = ktax_paths[parent].lately[(unsigned)slot % KTAX_PATH_CHILDREN];

    return path != 0 && ktax_paths[path].slot == slot ? path : ktax_paths_find(parent, slot);
}

/* What is counted in a place, of this vCPU. Not to be kept. */
static inline struct ktax_path_counts *ktax_path_counts(uint32_t path, enum ktax_context context)
{
    if (context == CONTEXT_PENDING) {
        return ktax_paths_pending(path);
    }
    return &ktax_paths[path].counts[context];
}

/* Gives what is pending on this vCPU to a context. */
void ktax_paths_settle(enum ktax_context context);

/* At the markers. Forgets all counts; copies them, or returns false. */
void ktax_paths_clear(void);
bool ktax_paths_take(struct ktax_region *to);

#endif
