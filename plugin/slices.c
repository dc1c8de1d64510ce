/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A slice ends behind a block. Blocks are not divided: what a slice is too long is taken from the
 * next one of that vCPU.
 *
 * Generated code counts `used` up to KTAX_LIMIT and then calls. A slice that the vCPU ends itself
 * sets it there, so that the next block calls, too. QEMU also ends slices before a timer is due;
 * those are seen where the context changes, and until then one vCPU is taken for another.
 */
#include "slices.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "context.h"
#include "counters.h"
#include "deadline.h"
#include "main-thread.h"
#include "region.h"
#include "yield.h"

static bool is_over = true; /* before the next block */
static uint64_t debt[KTAX_CPUS];

bool ktax_slices_init(void)
{
    ktax_rounds_restart();
    return ktax_quantum > 0 && ktax_yield_init();
}

/* Gives what was dispatched since the last call to the vCPU. */
static void book(void)
{
    uint64_t dispatched = ktax_running.used - ktax_booked.used;

    ktax_rounds_work(dispatched);
    ktax_deadline_spend(dispatched);
    ktax_cpus_booked += dispatched;
    ktax_cpu->total = ktax_cpus_total();
    ktax_cpu->user = ktax_cpus_user();
    ktax_booked = ktax_running;
}

static void set_used(uint64_t used)
{
    book();
    ktax_running.used = ktax_booked.used = used;
}

/* The slice of the vCPU that executes is over. */
static void leave(struct ktax_cpu *next)
{
    book();
    if (ktax_deadline_spend(KTAX_SLICE_COST)) {
        ktax_report_over();
    }
    ktax_rounds_slice_ends();
    debt[ktax_cpu - ktax_cpus] =
        ktax_running.used > KTAX_LIMIT ? ktax_running.used - KTAX_LIMIT : 0;
    if (next != ktax_cpu) {
        ktax_context_leave(next);
        ktax_cpu = next;
    }
}

static void begin_slice(struct ktax_cpu *cpu)
{
    int at = (int)(cpu - ktax_cpus);

    leave(cpu);
    ktax_rounds_slice(at);
    ktax_rounds_mix(ktax_running.trace);
    ktax_rounds_mix((uint64_t)cpu->index);
    is_over = false;
    uint64_t quantum = ktax_round_quantum;
    set_used(KTAX_LIMIT - (quantum > debt[at] ? quantum - debt[at] : 1));
}

void ktax_slices_restart(void)
{
    ktax_rounds_restart();
    ktax_deadline_restart();
    memset(debt, 0, sizeof(debt));
    is_over = false;
    set_used(KTAX_LIMIT - ktax_round_quantum);
}

static void on_limit(unsigned int vcpu, void *slot)
{
    struct ktax_cpu *cpu;

    (void)vcpu;
    if (!is_over) {
        ktax_deadline_at(DOING_WORK, (int)(uintptr_t)slot);
        ktax_rounds_kick();
        ktax_yield();
        is_over = true;
    } else if ((cpu = ktax_cpus_read())) {
        begin_slice(cpu);
    }
}

static void on_turn(unsigned int vcpu, void *data)
{
    struct ktax_cpu *cpu = ktax_cpus_read();

    (void)vcpu;
    (void)data;
    if (cpu && cpu != ktax_cpu) {
        begin_slice(cpu);
    }
}

static void on_first(unsigned int vcpu, void *slot)
{
    if (ktax_running.used >= KTAX_LIMIT) {
        on_limit(vcpu, slot);
    } else {
        on_turn(vcpu, NULL);
    }
}

/* The index is the translator's, who is in `data`, whoever executes. */
static void on_index(unsigned int vcpu, void *data)
{
    struct ktax_cpu *translator = data;

    if (translator->index >= 0 && translator->index != (int)vcpu) {
        fputs("ktax plugin: this QEMU gives the index of the vCPU that executes, which this "
              "plugin does not expect; run QEMU 10.0\n", stderr);
        _exit(1);
    }
    translator->index = (int)vcpu;
}

static void on_trace(unsigned int vcpu, void *data)
{
    (void)vcpu;
    ktax_running.trace += (uintptr_t)data;
}

int ktax_slices_watch(struct qemu_plugin_tb *tb, int slot, bool is_turn)
{
    uint64_t word = (uint64_t)qemu_plugin_tb_n_insns(tb) << 56 ^ qemu_plugin_tb_vaddr(tb);
    struct ktax_cpu *translator = ktax_cpus_read();
    void *at = (void *)(uintptr_t)slot;

    if (!translator || translator->index < 0) {
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_trace, QEMU_PLUGIN_CB_NO_REGS,
                                             (void *)(uintptr_t)word);
        if (translator) {
            qemu_plugin_register_vcpu_tb_exec_cb(tb, on_index, QEMU_PLUGIN_CB_NO_REGS, translator);
        }
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_first, QEMU_PLUGIN_CB_R_REGS, at);
        return -1;
    }
    ktax_counters_add_to_block(tb, &ktax_running.trace, word, translator->index);
    ktax_counters_call_from(tb, on_limit, at, &ktax_running.used, KTAX_LIMIT, translator->index);
    if (is_turn) {
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_turn, QEMU_PLUGIN_CB_R_REGS, NULL);
    }
    return translator->index;
}

/* The callback comes before the instruction is counted. */
void ktax_slices_pause(int slot)
{
    uint64_t used = ktax_running.used;

    if (!is_over && used < KTAX_LIMIT) {
        ktax_rounds_wait(KTAX_LIMIT - used);
        ktax_context_wait(slot, KTAX_LIMIT - used);
    }
    ktax_deadline_at(DOING_WAIT, slot);
    is_over = true;
    set_used(KTAX_LIMIT);
}

/* This may be the last that halts: who is halted is not always seen. */
void ktax_slices_halt(int slot)
{
    ktax_main_thread_wait();
    ktax_deadline_at(DOING_IDLE, slot);
    ktax_rounds_halt(slot);
    is_over = true;
    set_used(KTAX_LIMIT);
}

void ktax_slices_begin(void)
{
    if (ktax_one_cpu()) {
        return;
    }
    book();
    ktax_running.trace = ktax_booked.trace = 0;
    ktax_rounds_begin();
}

void ktax_slices_end(struct ktax_parallel *to)
{
    if (ktax_one_cpu()) {
        return;
    }
    book();
    ktax_rounds_mix(ktax_running.trace);
    ktax_rounds_end(to);
}
