/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From where code was called: follows calls, returns and entries of the kernel, and gives what was
 * dispatched to the path on which the vCPU was.
 *
 * A function that is entered without a call is below the one that jumped to it. Thunks of calls and
 * returns are below who uses them, and nothing is below them.
 */
#ifndef KTAX_CALLS_H
#define KTAX_CALLS_H

#include "qemu_api.h"
#include "region.h"

/* In context.c: the context of what executes. */
HOOK enum ktax_context ktax_context_now(void);

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

/* An instruction of costly.h is dispatched. */
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
void ktax_on_call(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t at, void *data);
void ktax_on_return(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t at, void *data);
void ktax_on_iretq_read(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t at, void *data);

#endif
