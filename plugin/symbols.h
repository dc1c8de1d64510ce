/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's functions, by address. */
#ifndef KTAX_SYMBOLS_H
#define KTAX_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The role of a function in context.c. */
enum ktax_role {
    ROLE_NONE,
    ROLE_INTERRUPT,   /* its first instruction begins an interrupt */
    ROLE_STUBS,       /* a table of stubs that jump to a ROLE_INTERRUPT function */
    ROLE_EXCEPTION,   /* its first instruction begins an exception */
    ROLE_SWITCH,      /* __switch_to_asm */
    ROLE_NEW_TASK,    /* where a new task runs first */
    ROLE_START,       /* start_kernel: where a boot's Region begins */
};

/* Code between a caller and whom it calls, or between a function and where it returns to. */
enum ktax_thunk {
    THUNK_NONE,
    THUNK_OF_CALLS,
    THUNK_OF_RETURNS,
};

/* What its first instruction says to awaited.c. */
enum ktax_scheduling {
    SCHEDULING_NOTHING,
    SCHEDULING_BEGINS, /* __schedule */
    SCHEDULING_SLEEPS, /* a task leaves a run queue; within __schedule, the one that called it */
    SCHEDULING_WAKES,  /* a task joins one */
    SCHEDULING_TIMER,  /* the interrupt is a timer's */
    SCHEDULING_IDLE,   /* only the task of an idle vCPU calls it */
};

struct ktax_function {
    uint64_t begin;
    uint64_t end;
    const char *name;
    enum ktax_role role;
    enum ktax_thunk thunk;
    enum ktax_scheduling scheduling;
    bool is_cold; /* a part of a function that the compiler put apart */
    int slot; /* -1: not seen running yet */
};

/* Reads the file of docs/wire.md. On failure prints what to do and returns false. */
bool ktax_symbols_load(const char *path);

/* The function that holds this address, or NULL. */
struct ktax_function *ktax_symbols_find(uint64_t address);

/* Does any function have this role? */
bool ktax_symbols_have(enum ktax_role role);

/* Is this address in the kernel's entry code, where an iretq returns from an entry? */
bool ktax_symbols_in_entry(uint64_t address);

#endif
