/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interrupts. One begins at the first instruction of an entry function (symbols.c) or in the stub
 * before it, and ends with the iretq that returns from it. Exceptions belong to the process, but
 * inside an interrupt their iretq must not end it, so there they count as one level more. The depth
 * is the task's: an interrupt that preempts switches tasks at depth 1 and ends when the task is
 * switched back to.
 *
 * Tasks. __switch_to_asm saves the stack pointer in the old task_struct and loads it from the new
 * one; the address names the task. A task is a process once it has executed a user-mode
 * instruction. Before that it is pending for a slice, from switch to switch: a slice without user
 * mode counts as kthread.
 *
 * Limits. What a process does in slices before its first user-mode instruction (a child that blocks
 * or is preempted before it gets there) counts as kthread. The kernel recycles task_structs: the
 * hundred instructions of __switch_to before ret_from_fork count as what the last task in the same
 * place was. Work that an interrupt leaves to the process (rescheduling on a syscall's way out)
 * counts as process; work on the interrupt's own way out (rescheduling, signals) as interrupt.
 */
#include "context.h"

#include "counters.h"
#include "region.h"
#include "rep.h"
#include "tasks.h"

bool ktax_context_of_boot;
int ktax_begins, ktax_ends;

static struct ktax_task boot_task = { .user = true }; /* runs before the first switch */
static struct ktax_task *task = &boot_task;
static uint64_t user_at_switch; /* the user-mode count when a task without one was switched to */
static bool in_stub;            /* the interrupt has begun in the stub that jumps to the function */
static bool lost;

static enum ktax_context context(void)
{
    if (task->depth > 0) {
        return CONTEXT_INTERRUPT;
    }
    return task->user ? CONTEXT_PROCESS : CONTEXT_PENDING;
}

/* At the end of a slice: has the task entered user mode? */
static void settle_task(void)
{
    if (!task->user) {
        task->user = ktax_count_of_user() != user_at_switch;
        ktax_settle(task->user ? CONTEXT_PROCESS : CONTEXT_KTHREAD);
    }
}

/* After an interrupt a REP instruction continues; after a fault it starts again. */
static void enter(uint64_t interrupted_rep)
{
    if (task->depth == 0) {
        ktax_flush(context());
    }
    if (task->depth < KTAX_NESTING) {
        task->interrupted_rep[task->depth] = interrupted_rep;
    }
    task->depth++;
}

void ktax_on_interrupt(unsigned int vcpu, void *data)
{
    (void)vcpu;
    (void)data;
    if (!in_stub) {
        enter(ktax_rep_current());
    }
    in_stub = false;
}

void ktax_on_stub(unsigned int vcpu, void *data)
{
    (void)vcpu;
    (void)data;
    if (!in_stub) {
        enter(ktax_rep_current());
    }
    in_stub = true;
}

void ktax_on_exception(unsigned int vcpu, void *data)
{
    (void)vcpu;
    (void)data;
    if (task->depth > 0) {
        enter(0);
    }
}

/* Counts the iretq itself, before the interrupt's counts are flushed. */
void ktax_on_iretq(unsigned int vcpu, void *data)
{
    (void)vcpu;
    ktax_counters->insns[(uintptr_t)data]++;
    if (task->depth == 0) {
        return; /* from an exception or a syscall */
    }
    task->depth--;
    if (task->depth == 0) {
        ktax_flush(CONTEXT_INTERRUPT);
    }
    if (task->depth < KTAX_NESTING && task->interrupted_rep[task->depth] != 0) {
        ktax_rep_resume(task->interrupted_rep[task->depth]);
    }
}

void ktax_on_save_stack(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t at, void *data)
{
    (void)vcpu;
    (void)info;
    (void)data;
    if (task == &boot_task) {
        task = ktax_task_find(at);
        *task = boot_task;
        task->key = at;
    }
}

void ktax_on_load_stack(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t at, void *data)
{
    struct ktax_task *next = ktax_task_find(at);

    (void)vcpu;
    (void)info;
    (void)data;
    if (!(task->user && task->depth == 0 && next->user && next->depth == 0)) {
        ktax_flush(context());
        settle_task();
    }
    task = next;
    task->user = task->user || ktax_context_of_boot;
    if (!task->user) {
        user_at_switch = ktax_count_of_user();
    }
}

/* Forgets the task that had this task_struct before. */
void ktax_on_new_task(unsigned int vcpu, void *data)
{
    (void)vcpu;
    (void)data;
    ktax_flush(context());
    task->user = ktax_context_of_boot;
    task->depth = 0;
}

void ktax_on_start(unsigned int vcpu, void *data)
{
    (void)vcpu;
    (void)data;
    ktax_region_begin();
}

/* The markers run in user mode, where every interrupt has returned and the task is a process. */
static void at_marker(void)
{
    lost = lost || task->depth > 0;
    ktax_flush(context());
    task->depth = 0;
    task->user = true;
    ktax_settle(CONTEXT_PROCESS);
}

void ktax_on_region_begin(unsigned int vcpu, void *data)
{
    (void)vcpu;
    (void)data;
    at_marker();
    ktax_begins++;
    ktax_region_begin();
}

void ktax_on_region_end(unsigned int vcpu, void *data)
{
    (void)vcpu;
    (void)data;
    at_marker();
    ktax_ends += ktax_begins > 0;
    ktax_region_end();
}

bool ktax_context_lost(void)
{
    return lost;
}
