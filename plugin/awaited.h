/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Kernel threads that the region waits for, of one vCPU. A process, the interrupt of a device or
 * such a thread wakes it, and it is awaited until it sleeps again: no process runs meanwhile. What
 * a timer wakes is awaited by none. With several vCPUs processes run meanwhile, and nothing is.
 */
#ifndef KTAX_AWAITED_H
#define KTAX_AWAITED_H

#include <stdbool.h>

#include "tasks.h"

/* Where a region begins: what was woken before belongs to none. */
void ktax_awaited_begin(void);

/* At an interrupt; `is_device` unless it is the kernel's own, as a timer's. */
void ktax_awaited_interrupt(bool is_device);

/* At the first instruction of a function of enum ktax_scheduling, which `task` executes. */
void ktax_awaited_schedule(struct ktax_task *task, int scheduling);

/* The vCPU goes from one task to another one. */
void ktax_awaited_switch(struct ktax_task *last, struct ktax_task *next);

#endif
