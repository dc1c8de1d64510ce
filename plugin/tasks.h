/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state of each task. */
#ifndef KTAX_TASKS_H
#define KTAX_TASKS_H

#include <stdbool.h>
#include <stdint.h>

enum { KTAX_NESTING = 8 };

struct ktax_task {
    uint64_t key;   /* where its task_struct saves its stack pointer; 0: free */
    bool user;      /* has executed user-mode instructions */
    bool is_preempted; /* could have gone on at its last switch */
    bool is_awaited;   /* if it is a kernel thread; awaited.h */
    unsigned depth; /* interrupts entered and not returned from, and exceptions inside them */
    uint64_t interrupted_rep[KTAX_NESTING]; /* by depth: the REP site, or 0 */
};

/* The task of this key, a new one if it is unknown. Never NULL. */
struct ktax_task *ktax_task_find(uint64_t key);

/* No kernel thread is awaited any more. */
void ktax_tasks_forget_awaited(void);

/* Were there more tasks than the table holds? */
bool ktax_tasks_full(void);

#endif
