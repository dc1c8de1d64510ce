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
 * mode counts as kthread, or as awaited (awaited.h).
 *
 * Limits. What a process does in slices before its first user-mode instruction (a child that blocks
 * or is preempted before it gets there) counts as kthread. The kernel recycles task_structs: the
 * hundred instructions of __switch_to before ret_from_fork count as what the last task in the same
 * place was. Work that an interrupt leaves to the process (rescheduling on a syscall's way out)
 * counts as process; work on the interrupt's own way out (rescheduling, signals) as interrupt.
 */
#include "context.h"

#include <string.h>

#include "awaited.h"
#include "calls.h"
#include "coherence.h"
#include "counters.h"
#include "cpus.h"
#include "paths.h"
#include "region.h"
#include "rep.h"
#include "slices.h"
#include "tasks.h"

bool ktax_context_of_boot;
int ktax_begins, ktax_ends;

static bool lost;

static enum ktax_context context_of(const struct ktax_cpu *cpu)
{
    if (cpu->task->depth > 0) {
        return CONTEXT_INTERRUPT;
    }
    return cpu->task->user ? CONTEXT_PROCESS : CONTEXT_PENDING;
}

static enum ktax_context context(void)
{
    return context_of(ktax_cpu);
}

enum ktax_context ktax_context_now(void)
{
    return context();
}

/* Each vCPU has a bucket of its own for what is pending. */
void ktax_context_leave(const struct ktax_cpu *next)
{
    ktax_calls_flush(0);
    if (context() == CONTEXT_PENDING || context() != context_of(next)) {
        ktax_flush(context());
    }
}

void ktax_context_wait(int slot, uint64_t n)
{
    ktax_region_add(COLUMN_WAIT, context(), slot, n);
    if (ktax_paths_followed) {
        ktax_calls_wait(n);
    }
}

void ktax_context_idle(const struct ktax_cpu *cpu, int slot, uint64_t n)
{
    ktax_region_add(COLUMN_IDLE, CONTEXT_KTHREAD, slot, n);
    if (ktax_paths_followed && cpu->left) {
        ktax_calls_idle(cpu->left_at, n);
    }
}

void ktax_context_transfer(int slot)
{
    ktax_region_add(COLUMN_TRANSFERS, context(), slot, 1);
}

/* At the end of a slice: has the task entered user mode? */
static void settle_task(void)
{
    if (!ktax_cpu->task->user) {
        ktax_cpu->task->user = ktax_count_of_user() != ktax_cpu->user_at_switch;
        enum ktax_context kernel = ktax_cpu->task->is_awaited ? CONTEXT_AWAITED : CONTEXT_KTHREAD;
        enum ktax_context settled = ktax_cpu->task->user ? CONTEXT_PROCESS : kernel;
        ktax_settle(settled);
        ktax_paths_settle(settled);
    }
}

/* After an interrupt a REP instruction continues; after a fault it starts again. */
static void enter(uint64_t interrupted_rep)
{
    if (ktax_cpu->task->depth == 0) {
        ktax_flush(context());
    }
    if (ktax_cpu->task->depth < KTAX_NESTING) {
        ktax_cpu->task->interrupted_rep[ktax_cpu->task->depth] = interrupted_rep;
    }
    ktax_cpu->task->depth++;
}

/* All others are the kernel's own: timers, and what it sends to itself. */
static bool is_of_device(int slot)
{
    return strcmp(ktax_slot_name(slot), "asm_common_interrupt") == 0;
}

void ktax_on_interrupt(unsigned int vcpu, void *data)
{
    (void)vcpu;
    ktax_awaited_interrupt(is_of_device((int)(uintptr_t)data));
    if (!ktax_cpu->in_stub) {
        ktax_calls_enter((int)(uintptr_t)data, true);
        enter(ktax_rep_current());
    } else {
        ktax_calls_jump((int)(uintptr_t)data);
    }
    ktax_cpu->in_stub = false;
}

void ktax_on_stub(unsigned int vcpu, void *data)
{
    (void)vcpu;
    if (!ktax_cpu->in_stub) {
        ktax_calls_enter((int)(uintptr_t)data, true);
        enter(ktax_rep_current());
    }
    ktax_cpu->in_stub = true;
}

void ktax_on_exception(unsigned int vcpu, void *data)
{
    (void)vcpu;
    ktax_calls_enter((int)(uintptr_t)data, false);
    if (ktax_cpu->task->depth > 0) {
        enter(0);
    }
}

/* Counts the iretq itself, before the interrupt's counts are flushed. */
void ktax_on_iretq(unsigned int vcpu, void *data)
{
    (void)vcpu;
    ktax_counters->insns[(uintptr_t)data]++;
    ktax_calls_iretq();
    if (ktax_cpu->task->depth == 0) {
        return; /* from an exception or a syscall */
    }
    ktax_cpu->task->depth--;
    if (ktax_cpu->task->depth == 0) {
        ktax_flush(CONTEXT_INTERRUPT);
    }
    const struct ktax_task *task = ktax_cpu->task;
    if (task->depth < KTAX_NESTING && task->interrupted_rep[task->depth] != 0) {
        ktax_rep_resume(task->interrupted_rep[task->depth]);
    }
}

void ktax_on_schedule(unsigned int vcpu, void *data)
{
    (void)vcpu;
    ktax_awaited_schedule(ktax_cpu->task, (int)(uintptr_t)data);
}

void ktax_on_sysret(unsigned int vcpu, void *data)
{
    (void)vcpu;
    ktax_counters->insns[(uintptr_t)data]++;
    ktax_calls_flush(1);
    ktax_calls_leave();
}

void ktax_on_save_stack(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t at, void *data)
{
    (void)vcpu;
    (void)info;
    (void)data;
    if (ktax_cpu->task == &ktax_cpu->first_task) {
        ktax_cpu->task = ktax_task_find(at);
        *ktax_cpu->task = ktax_cpu->first_task;
        ktax_cpu->task->key = at;
    }
}

/*
 * Remembers where the last process of this vCPU left it, while no other one runs here, and that one
 * nowhere: it waits there for what the idle vCPU could have done for it.
 */
static void note_left(const struct ktax_task *next, uint32_t left_at)
{
    for (int i = 0; i < ktax_cpu_count; i++) {
        if (ktax_cpus[i].left == next) {
            ktax_rounds_idle_so_far(i);
            ktax_cpus[i].left = NULL;
        }
    }
    if (ktax_cpu->task->user) {
        ktax_cpu->left = ktax_cpu->task;
        ktax_cpu->left_at = left_at;
    }
    if (next->user) {
        ktax_cpu->left = NULL;
    }
}

void ktax_on_load_stack(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t at, void *data)
{
    struct ktax_task *next = ktax_task_find(at);
    uint32_t left_at = ktax_calls_here();

    (void)vcpu;
    (void)info;
    (void)data;
    ktax_calls_switch();
    if (!(ktax_cpu->task->user && ktax_cpu->task->depth == 0 && next->user && next->depth == 0)) {
        ktax_flush(context());
        settle_task();
    }
    if (ktax_one_cpu()) {
        ktax_awaited_switch(ktax_cpu->task, next);
    } else {
        note_left(next, left_at);
    }
    ktax_cpu->task = next;
    ktax_cpu->task->user = ktax_cpu->task->user || ktax_context_of_boot;
    if (!ktax_cpu->task->user) {
        ktax_cpu->user_at_switch = ktax_count_of_user();
    }
}

/* Forgets the task that had this task_struct before. */
void ktax_on_new_task(unsigned int vcpu, void *data)
{
    (void)vcpu;
    ktax_calls_new_task((int)(uintptr_t)data);
    ktax_flush(context());
    ktax_cpu->task->is_preempted = false;
    ktax_cpu->task->user = ktax_context_of_boot;
    ktax_cpu->task->depth = 0;
}

void ktax_on_start(unsigned int vcpu, void *data)
{
    (void)vcpu;
    (void)data;
    ktax_region_begin();
    ktax_calls_begin();
}

/* The markers run in user mode, where every interrupt has returned and the task is a process. */
static void at_marker(void)
{
    lost = lost || ktax_cpu->task->depth > 0;
    ktax_calls_flush(0);
    ktax_flush(context());
    ktax_cpu->task->depth = 0;
    ktax_cpu->task->user = true;
    ktax_settle(CONTEXT_PROCESS);
    ktax_paths_settle(CONTEXT_PROCESS);
}

/* Other vCPUs are in the middle of something. */
static void settle_others(void)
{
    struct ktax_cpu *own = ktax_cpu;

    for (int i = 0; i < ktax_cpu_count; i++) {
        ktax_cpu = &ktax_cpus[i];
        if (ktax_cpu != own) {
            settle_task();
        }
    }
    ktax_cpu = own;
}

void ktax_on_region_begin(unsigned int vcpu, void *data)
{
    (void)vcpu;
    (void)data;
    at_marker();
    ktax_begins++;
    ktax_awaited_begin();
    ktax_slices_begin();
    ktax_region_begin();
    ktax_calls_begin();
}

void ktax_on_region_end(unsigned int vcpu, void *data)
{
    struct ktax_parallel parallel = { 0 };

    (void)vcpu;
    (void)data;
    at_marker();
    ktax_ends += ktax_begins > 0;
    ktax_slices_end(&parallel);
    settle_others();
    ktax_region_end(&parallel);
}

bool ktax_context_lost(void)
{
    return lost;
}
