/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vCPUs, their tasks and registers, and the time of each. */
#ifndef KTAX_CPUS_H
#define KTAX_CPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "qemu_api.h"
#include "stacks.h"

/* The registers of the vCPU that executes, for callbacks that may read them. */

/* Does this QEMU let registers be read? */
bool ktax_registers_are_there(void);

/* By QEMU's name; NULL if there is none. Call it when a vCPU exists. */
struct qemu_plugin_register *ktax_register_find(const char *name);

/* False: `handle` is NULL, or has no 64 bits. */
bool ktax_register_get(struct qemu_plugin_register *handle, uint64_t *value);

/* 0 then. */
uint64_t ktax_register_read(struct qemu_plugin_register *handle);

/* The state of each task. */

enum { KTAX_NESTING = 8 };

struct ktax_task {
    uint64_t key;   /* where its task_struct saves its stack pointer; 0: free */
    bool user;      /* has executed user-mode instructions */
    bool is_preempted; /* could have gone on at its last switch */
    bool is_awaited;   /* if it is a kernel thread; context.h */
    unsigned depth; /* interrupts entered and not returned from, and exceptions inside them */
    uint64_t interrupted_rep[KTAX_NESTING]; /* by depth: the REP site, or 0 */
};

/* Were there more tasks than the table holds? */
bool ktax_tasks_full(void);

/*
 * The vCPUs, of which one executes at a time. QEMU shares translated code between them, and the
 * index that a callback gets is that of the vCPU that translated (QEMU 9.0 to 11.1). So the base of
 * the per-CPU area tells who executes; it is read where another vCPU may have come.
 */

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

/*
 * When several vCPUs have had their time, and where each of them is. To ask QEMU for its clock
 * would wake another thread of it, and that may change which vCPU goes on; so time is counted here.
 */

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

/*
 * Keeps the time of several vCPUs, in instructions. A round is over when a vCPU comes again that
 * had its slice; it is as long as its longest slice. What of that a vCPU did not execute it waited
 * for another one, at a PAUSE; or it was idle, from a HLT to its next slice; or its slice was
 * shorter than the longest one: that is `uneven`, and comes of the slices and not of the guest.
 *
 * Idle time is the difference of two times, and what is uneven is summed up round by round. So it
 * is no matter of course that all times of a vCPU add up to the makespan: the reader checks it.
 */

/* Instructions of a slice. */
extern uint64_t ktax_quantum;
/*
 * The same after a round in which a vCPU waited, and for some rounds more; 0: the same. Else a vCPU
 * would wait for the rest of a slice for what another one holds for a few instructions.
 */
extern uint64_t ktax_contended_quantum;
/* The seed of the jitter, by which a quantum is half as long to one and a half; 0: none. */
extern uint64_t ktax_jitter;
/* Of this round. */
extern uint64_t ktax_round_quantum;

struct ktax_time {
    uint64_t work;
    uint64_t wait;
    uint64_t idle;
    uint64_t uneven;
};

struct ktax_parallel {
    struct ktax_time times[KTAX_CPUS];
    uint64_t makespan;
    uint64_t rounds;
    uint64_t kicks; /* slices that ended because the quantum was used up */
    uint64_t trace; /* a hash of what was executed, and by whom */
};

/* In context.c: a vCPU was idle since a HLT of that slot. */
void ktax_context_idle(const struct ktax_cpu *cpu, int slot, uint64_t n);

/* Counts how long a vCPU has been idle so far, before it is idle for another reason. */
void ktax_rounds_idle_so_far(int cpu);

/*
 * Schedules several vCPUs. QEMU decides in which order they execute, and this for how long: a
 * quantum of instructions, or to where the vCPU itself waits.
 */

/* In context.c: another vCPU goes on, and this one waits at an instruction of that slot. */
void ktax_context_leave(const struct ktax_cpu *next);
void ktax_context_wait(int slot, uint64_t n);
/* In report.c: the time is over. Ends QEMU. */
void ktax_report_over(void);

/* False: this QEMU cannot end a slice. */
bool ktax_slices_init(void);

/*
 * Registers what a block needs, before its instructions are counted. `slot` is that of its first
 * one; `is_turn` if the context may change in it, so that it must be certain who executes. Returns
 * QEMU's index of the vCPU that translates, or -1 while that is not known.
 */
int ktax_slices_watch(struct qemu_plugin_tb *tb, int slot, bool is_turn);

/*
 * From here on all slices follow from the quantum and the seed, whatever was before. No other vCPU
 * may execute yet.
 */
void ktax_slices_restart(void);

/* At a PAUSE, at a HLT. */
void ktax_slices_pause(int slot);
void ktax_slices_halt(int slot);

/* At the markers. */
void ktax_slices_begin(void);
void ktax_slices_end(struct ktax_parallel *to);

#endif
