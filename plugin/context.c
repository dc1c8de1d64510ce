/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Follows interrupts and task switches, to know in which context code executes.
 *
 * Interrupts. An interrupt begins at the first instruction of an entry function (symbols.c), or in
 * the stub before it, and ends with the iretq that returns from it. Exceptions belong to the
 * process. Inside an interrupt, though, the iretq of an exception must not end the interrupt, so
 * there an exception counts as one more level. The depth belongs to the task: an interrupt that
 * preempts switches tasks at depth 1, and ends when the kernel switches back to the task.
 *
 * Tasks. __switch_to_asm saves the stack pointer in the old task_struct and loads it from the new
 * one; that address identifies the task. A task is a process from its first user-mode instruction
 * on. Before that, each of its slices, from switch to switch, is pending: a slice without user mode
 * counts as kthread, or as awaited.
 *
 * Limits. Slices of a process before its first user-mode instruction (a child that blocks or is
 * preempted before it gets there) count as kthread. The kernel recycles task_structs: the hundred
 * instructions of __switch_to before ret_from_fork count for the last task in the same place. Work
 * that an interrupt leaves to the process (rescheduling on a syscall's way out) counts as process;
 * work on the interrupt's own way out (rescheduling, signals) counts as interrupt.
 */
#include "context.h"

#include <string.h>

#include "calls.h"
#include "coherence.h"
#include "counters.h"
#include "cpus.h"
#include "symbols.h"

/*
 * Tasks: an open-addressing table without removal. The kernel recycles task_structs, so the table
 * has about as many entries as there were tasks at one time. A new task resets its entry.
 */

enum { BITS = 14, SIZE = 1 << BITS, MOST = SIZE / 4 * 3 };

static struct ktax_task table[SIZE];
static struct ktax_task overflow;
static int used;
static bool full;

/* The task of this key, a new one if it is unknown. Never NULL. */
static struct ktax_task *find_task(uint64_t key)
{
    uint64_t index = (key * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - BITS);

    while (table[index].key != 0 && table[index].key != key) {
        index = (index + 1) % SIZE;
    }
    if (table[index].key == key) {
        return &table[index];
    }
    if (used == MOST) {
        full = true;
        memset(&overflow, 0, sizeof(overflow));
        return &overflow;
    }
    used++;
    table[index].key = key;
    return &table[index];
}

/* No kernel thread is awaited any more. */
static void forget_awaited(void)
{
    for (int i = 0; i < SIZE; i++) {
        table[i].is_awaited = false;
    }
}

bool ktax_tasks_full(void)
{
    return full;
}

/*
 * Awaited kernel threads. Which task is woken is not seen. So a task that begins to run is taken
 * for the one that was woken last; where two were, by a process and by a timer, this may be wrong.
 * A task sleeps if it leaves its run queue between the beginning of __schedule and the switch. Else
 * it was preempted, and goes on as what it was.
 */

static bool sleeps;       /* the task that is in __schedule */
static bool is_by_device; /* the last interrupt */
static bool is_by_region; /* the last wake-up */

/* At an interrupt; `is_device` unless it is the kernel's own, as a timer's. */
static void awaited_interrupt(bool is_device)
{
    is_by_device = is_device;
}

/* At the first instruction of a function of enum ktax_scheduling, which `task` executes. */
static void awaited_schedule(struct ktax_task *task, int scheduling)
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

/* Where a region begins: what was woken before belongs to none. */
static void awaited_begin(void)
{
    is_by_region = false;
    forget_awaited();
}

/* The vCPU goes from one task to another one. */
static void awaited_switch(struct ktax_task *last, struct ktax_task *next)
{
    last->is_preempted = !sleeps;
    if (!next->is_preempted) {
        next->is_awaited = is_by_region;
    }
}

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
    awaited_interrupt(is_of_device((int)(uintptr_t)data));
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
    awaited_schedule(ktax_cpu->task, (int)(uintptr_t)data);
}

void ktax_on_sysret(unsigned int vcpu, void *data)
{
    (void)vcpu;
    ktax_counters->insns[(uintptr_t)data]++;
    ktax_calls_flush(1);
    ktax_calls_leave();
}

void ktax_on_save_stack(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    (void)vcpu;
    (void)info;
    (void)data;
    if (ktax_cpu->task == &ktax_cpu->first_task) {
        ktax_cpu->task = find_task(address);
        *ktax_cpu->task = ktax_cpu->first_task;
        ktax_cpu->task->key = address;
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

void ktax_on_load_stack(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    struct ktax_task *next = find_task(address);
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
        awaited_switch(ktax_cpu->task, next);
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
    awaited_begin();
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
