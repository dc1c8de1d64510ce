/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions and variables of the kernel, and functions of the user's programs. */
#ifndef KTAX_SYMBOLS_H
#define KTAX_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qemu_api.h"

/* The kernel's functions, by address. */

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

/* What its first instruction says about awaited kernel threads. */
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

/* What is at an address: the kernel's variables by their symbols, other memory by its kind. */

struct ktax_memory {
    const char *kind;     /* data, percpu, direct, vmalloc, pages, user, other */
    const char *symbol;   /* NULL: none */
    uint64_t line_offset; /* of the address' line from the symbol; 0 if the line begins before it */
};

/* Reads the file of docs/wire.md. On failure prints what to do and returns false. */
bool ktax_memory_load(const char *path);

struct ktax_memory ktax_memory_of(uint64_t address);

/* Whether pages there have 2 MiB, by where Linux has them. */
bool ktax_memory_is_large(uint64_t address);

/* The names of two, in alphabetical order; kept. */
const char *ktax_memory_both(const char *one, const char *other);

/* The functions of the user's programs, by the machine code that user mode executes. */

/* Reads the files of docs/wire.md, Programs. On failure prints what to do and returns false. */
bool ktax_user_load(const char *archive, const char *functions);

/* Finds out which program or library a block of user mode is of. Call it before its slots. */
void ktax_user_block(const struct qemu_plugin_tb *tb);

/* The slot of an instruction of that block: of its function, else of its file, else SLOT_USER. */
int ktax_user_slot(uint64_t address);

#endif
