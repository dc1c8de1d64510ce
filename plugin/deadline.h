/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When several vCPUs have had their time, and where each of them is. To ask QEMU for its clock
 * would wake another thread of it, and that may change which vCPU goes on; so time is counted here.
 */
#ifndef KTAX_DEADLINE_H
#define KTAX_DEADLINE_H

#include "cpus.h"

/* Most QEMUs take at most as long to begin a slice as for so many instructions. */
enum { KTAX_SLICE_COST = 1000 };

/* The exit status of QEMU when the time is over. A guest can only make it end with an odd one. */
enum { KTAX_OVER_STATUS = 64 };

/* Instructions, and KTAX_SLICE_COST for each slice; 0: no limit. */
extern uint64_t ktax_deadline;

/* What a vCPU did when its last slice ended. */
enum ktax_doing {
    DOING_UNKNOWN, /* it has had no slice that ended */
    DOING_WORK,
    DOING_WAIT,
    DOING_IDLE,
};

struct ktax_place {
    enum ktax_doing doing;
    int slot;
};

extern struct ktax_place ktax_places[KTAX_CPUS];

/* The slice of the vCPU that executes ends here. */
void ktax_deadline_at(enum ktax_doing doing, int slot);

/* True: the time is over. */
bool ktax_deadline_spend(uint64_t n);

/* The time begins. */
void ktax_deadline_restart(void);

#endif
