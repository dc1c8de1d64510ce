/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The vCPUs, of which one executes at a time. QEMU shares translated code between them, and the
 * index that a callback gets is that of the vCPU that translated (QEMU 9.0 to 11.1). So the base of
 * the per-CPU area tells who executes; it is read where another vCPU may have come.
 */
#ifndef KTAX_CPUS_H
#define KTAX_CPUS_H

#include "qemu_api.h"
#include "stacks.h"
#include "tasks.h"

enum { KTAX_CPUS = 32 };

struct ktax_cpu {
    uint64_t base; /* of its per-CPU area; 0: it has not executed yet */
    int index;     /* QEMU's; -1: not known yet */
    struct ktax_task first_task; /* runs before the first switch */
    struct ktax_task *task;
    uint64_t user_at_switch; /* the user-mode count when a task without one was switched to */
    bool in_stub;       /* the interrupt has begun in the stub that jumps to the function */
    uint64_t rep_site;  /* of the REP instruction that was dispatched last */
    uint64_t rep_total; /* before that was counted */
    struct ktax_position position;
    uint32_t left_at;   /* the path where its last process left it */
    const struct ktax_task *left; /* that process; NULL: there is none, or it runs */
    uint64_t total;     /* dispatches before this slice, and those of user mode */
    uint64_t user;
};

extern int ktax_cpu_count;
extern struct ktax_cpu ktax_cpus[KTAX_CPUS];
extern struct ktax_cpu *ktax_cpu; /* that executes */

static inline bool ktax_one_cpu(void)
{
    return ktax_cpu_count == 1;
}

/*
 * What the vCPU that executes has dispatched; generated code adds here. `used` is of its slice, and
 * KTAX_LIMIT when the slice is over.
 */
struct ktax_running {
    uint64_t used;
    uint64_t user;  /* of user mode */
    uint64_t trace; /* a sum over its blocks */
};
#define KTAX_LIMIT (UINT64_C(1) << 40)
extern struct ktax_running ktax_running;
extern struct ktax_running ktax_booked; /* of that, what its vCPU has in its totals */

/* Dispatches so far: of this vCPU, of user mode of this vCPU. */
uint64_t ktax_cpus_total(void);
uint64_t ktax_cpus_user(void);

/* Those of all vCPUs: what was booked, and what was not yet. */
extern uint64_t ktax_cpus_booked;
static inline uint64_t ktax_cpus_dispatched(void)
{
    return ktax_cpus_booked + ktax_running.used - ktax_booked.used;
}

/* False: there are too many, or this QEMU does not let registers be read. */
bool ktax_cpus_init(int count);

/* Call it when a vCPU exists. */
void ktax_cpus_start(void);

/*
 * The vCPU that executes or translates, for callbacks that may read registers. NULL: it has no area
 * of its own yet.
 */
struct ktax_cpu *ktax_cpus_read(void);

#endif
