/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Contexts: tasks, interrupts, and kernel threads that the processes wait for. */
#ifndef KTAX_CONTEXT_H
#define KTAX_CONTEXT_H

#include <stdbool.h>

#include "cpus.h"
#include "qemu_api.h"

/*
 * Kernel threads that the region waits for, of one vCPU. A process, the interrupt of a device or
 * such a thread wakes it, and it is awaited until it sleeps again: no process runs meanwhile. What
 * a timer wakes is awaited by none. With several vCPUs processes run meanwhile, and nothing is.
 */

/*
 * Whether a boot is counted: one Region from the kernel's start to init's, in which every task is a
 * process, for all of them are the boot's.
 */
extern bool ktax_context_of_boot;

/* At the first instruction of start_kernel, if a boot is counted. */
void ktax_on_start(unsigned int vcpu, void *data);
/* At the first instruction of an entry function, whose slot is `data`. */
void ktax_on_interrupt(unsigned int vcpu, void *data);
void ktax_on_exception(unsigned int vcpu, void *data);
/* At each instruction of the stubs that jump to one. */
void ktax_on_stub(unsigned int vcpu, void *data);
/* At an iretq of the entry code; counts it in its slot, which is `data`. */
void ktax_on_iretq(unsigned int vcpu, void *data);
/* At the first instruction of a function of enum ktax_scheduling, which is `data`. */
void ktax_on_schedule(unsigned int vcpu, void *data);
/* At a SYSRET; counts it in its slot, which is `data`. */
void ktax_on_sysret(unsigned int vcpu, void *data);
/* At the memory access that saves the old task's stack pointer or loads the new one's. */
void ktax_on_save_stack(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address,
                        void *data);
void ktax_on_load_stack(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address,
                        void *data);
/* Where a new task begins. */
void ktax_on_new_task(unsigned int vcpu, void *data);
/* At the markers. */
void ktax_on_region_begin(unsigned int vcpu, void *data);
void ktax_on_region_end(unsigned int vcpu, void *data);
/* How many were executed, from the first that begins on: a program's own may be no pairs. */
extern int ktax_begins, ktax_ends;

/* Was user mode seen inside an interrupt? Then a return was missed. */
bool ktax_context_lost(void);

#endif
