/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keeps the time of several vCPUs, in instructions. A round is over when a vCPU comes again that
 * had its slice; it is as long as its longest slice. What of that a vCPU did not execute it waited
 * for another one, at a PAUSE; or it was idle, from a HLT to its next slice; or its slice was
 * shorter than the longest one: that is `uneven`, and comes of the slices and not of the guest.
 *
 * Idle time is the difference of two times, and what is uneven is summed up round by round. So it
 * is no matter of course that all times of a vCPU add up to the makespan: the reader checks it.
 */
#ifndef KTAX_ROUNDS_H
#define KTAX_ROUNDS_H

#include "cpus.h"

/* A function that a file above this one defines: none that it uses needs this one. */
#define HOOK

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
HOOK void ktax_context_idle(const struct ktax_cpu *cpu, int slot, uint64_t n);

/* Quanta follow from the seed anew, and the vCPU that executes has its first slice. */
void ktax_rounds_restart(void);

/* A vCPU begins a slice: of this round, or of the next one. */
void ktax_rounds_slice(int cpu);

/* In its slice the vCPU that executes dispatched so much, or waited so long. */
void ktax_rounds_work(uint64_t n);
void ktax_rounds_wait(uint64_t n);
/* It is halted at this slot: when its slice has ended it is idle, until it begins another one. */
void ktax_rounds_halt(int slot);
void ktax_rounds_slice_ends(void);
/* Counts how long a vCPU has been idle so far, before it is idle for another reason. */
void ktax_rounds_idle_so_far(int cpu);

/* A slice ended because the quantum was used up; something that another trace would not have. */
void ktax_rounds_kick(void);
void ktax_rounds_mix(uint64_t word);

/* At the markers: here a round begins. */
void ktax_rounds_begin(void);
void ktax_rounds_end(struct ktax_parallel *to);

#endif
