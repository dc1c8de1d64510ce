/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which task is woken is not seen. So one that begins to run is taken for that which was woken
 * last; where two were, by a process and by a timer, this may be wrong. A task sleeps if it leaves
 * its run queue between the beginning of __schedule and the switch. Else it was preempted, and goes
 * on as what it was.
 */
#include "awaited.h"

#include "symbols.h"

static bool sleeps;       /* the task that is in __schedule */
static bool is_by_device; /* the last interrupt */
static bool is_by_region; /* the last wake-up */

void ktax_awaited_interrupt(bool is_device)
{
    is_by_device = is_device;
}

void ktax_awaited_schedule(struct ktax_task *task, int scheduling)
{
    switch (scheduling) {
    case SCHEDULING_BEGINS:
        sleeps = false;
        break;
    case SCHEDULING_SLEEPS:
        sleeps = true;
        break;
    case SCHEDULING_WAKES:
        is_by_region = task->depth > 0 ? is_by_device : task->user || task->is_awaited;
        break;
    case SCHEDULING_TIMER:
        is_by_device = false;
        break;
    case SCHEDULING_IDLE:
        task->is_awaited = false;
        break;
    default:
        break;
    }
}

void ktax_awaited_begin(void)
{
    is_by_region = false;
    ktax_tasks_forget_awaited();
}

void ktax_awaited_switch(struct ktax_task *last, struct ktax_task *next)
{
    last->is_preempted = !sleeps;
    if (!next->is_preempted) {
        next->is_awaited = is_by_region;
    }
}
