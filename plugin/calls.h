/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Call paths: from where code was called. */
#ifndef KTAX_CALLS_H
#define KTAX_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "counters.h"
#include "qemu_api.h"

/*
 * A tree of functions, each below the one that called it, and what was dispatched in each place.
 */
enum {
    PATH_ROOT = 0,            /* the first one, and no function */
    /* As slots: what is counted in a place as if it were called there. */
    PATH_COSTLY = KTAX_SLOTS,  /* and a kind of costly instruction */
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
bool ktax_paths_take(struct ktax_region *to);

/*
 * From where code was called: follows calls, returns and entries of the kernel, and gives what was
 * dispatched to the path on which the vCPU was.
 *
 * A function that is entered without a call is below the one that jumped to it. Thunks of calls and
 * returns are below who uses them, and nothing is below them.
 */

/* In context.c: the context of what executes. */
enum ktax_context ktax_context_now(void);

/*
 * Gives what was dispatched since the last call to where the vCPU that executes is, with `next`
 * that generated code will count.
 */
void ktax_calls_flush(uint64_t next);
/* The same at an IRETQ of the entry code. */
void ktax_calls_iretq(void);

/* The stack of what executes; NULL: an entry has called nothing yet, or interrupted the kernel. */
const struct ktax_stack *ktax_calls_stack(void);

/* Where the kernel is entered: by an interrupt, by an exception. */
void ktax_calls_enter(int slot, bool is_interrupt);
/* The stub of an interrupt jumped to its function. */
void ktax_calls_jump(int slot);
/* Where a new task begins, on a stack that may have been another one's. */
void ktax_calls_new_task(int slot);
/* Before another task's stack is the stack. */
void ktax_calls_switch(void);
/* After a SYSRET. */
void ktax_calls_leave(void);

/* A costly instruction is dispatched. */
void ktax_calls_costly(int kind);

/* The vCPU that executes waits so long where it is. */
void ktax_calls_wait(uint64_t n);
/* A vCPU was idle so long, which its last process has left at this path. */
void ktax_calls_idle(uint32_t path, uint64_t n);
/* Where the vCPU that executes is. */
uint32_t ktax_calls_here(void);

/* At the marker that begins a region, which is in user mode. */
void ktax_calls_begin(void);

/* At the first instruction of a function, whose slot is `data`. */
void ktax_on_enter(unsigned int vcpu, void *data);
/* At the memory accesses of calls and returns. A thunk that only returns is `data`, plus one. */
void ktax_on_call(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data);
void ktax_on_return(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data);
void ktax_on_iretq_read(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address,
                        void *data);

/* Code that is no function of its own: thunks, and what the compiler put apart. */

/* At the first instruction of a thunk: twice its slot, and 1 if calls go through it. */
void ktax_on_thunk(unsigned int vcpu, void *data);

/* At a block of code that the compiler put apart, whose slot is `data`, and where it jumps back. */
void ktax_on_cold(unsigned int vcpu, void *data);
void ktax_on_jump_back(unsigned int vcpu, void *data);

#endif
