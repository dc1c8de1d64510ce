/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * qemu_plugin_update_ns() leaves work for the vCPU that executes. To do it QEMU ends the slice
 * behind this block; the clock stands where it is. Blocks are not divided: what a slice is too long
 * is taken from the next one of that vCPU.
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

#define HASH_START UINT64_C(1469598103934665603)
#define HASH_STEP UINT64_C(1099511628211)

uint64_t ktax_quantum;
uint64_t ktax_jitter;

static const void *time_control;
static bool is_over = true; /* before the next block */
static uint64_t debt[KTAX_CPUS];

/* The round. */
static uint64_t quantum;
static uint64_t random_state;
static struct ktax_time round_of[KTAX_CPUS];
static bool had_slice[KTAX_CPUS];
static int halted_in[KTAX_CPUS]; /* the slot where it was idle last */

static struct ktax_parallel now;
static bool is_open;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state * UINT64_C(0x2545f4914f6cdd1d)) >> 32;
}

static void begin_round(void)
{
    for (int i = 0; i < ktax_cpu_count; i++) {
        round_of[i] = (struct ktax_time){ 0 };
        had_slice[i] = false;
    }
    quantum = ktax_jitter ? ktax_quantum / 2 + next_random() % ktax_quantum : ktax_quantum;
}

static uint64_t longest_slice(void)
{
    uint64_t longest = 0;

    for (int i = 0; i < ktax_cpu_count; i++) {
        uint64_t used = round_of[i].work + round_of[i].wait;
        longest = used > longest ? used : longest;
    }
    return longest;
}

static void end_round(void)
{
    uint64_t length = longest_slice();

    for (int i = 0; is_open && i < ktax_cpu_count; i++) {
        uint64_t idle = length - round_of[i].work - round_of[i].wait;
        now.times[i].work += round_of[i].work;
        now.times[i].wait += round_of[i].wait;
        now.times[i].idle += idle;
        ktax_region_idle(halted_in[i], idle);
    }
    now.makespan += length;
    now.rounds++;
}

static void seed(void)
{
    random_state = ktax_jitter * UINT64_C(0x9e3779b97f4a7c15) | 1;
    begin_round();
}

bool ktax_slices_init(void)
{
    seed();
    if (qemu_plugin_request_time_control && qemu_plugin_update_ns && ktax_quantum > 0) {
        time_control = qemu_plugin_request_time_control();
    }
    return time_control != NULL;
}

/* Gives what was dispatched since the last call to the vCPU. */
static void book(void)
{
    uint64_t dispatched = ktax_running.used - ktax_booked.used;

    round_of[ktax_cpu - ktax_cpus].work += dispatched;
    ktax_deadline_spend(dispatched);
    ktax_cpu->total = ktax_cpus_total();
    ktax_cpu->user = ktax_cpus_user();
    ktax_booked = ktax_running;
}

static void set_used(uint64_t used)
{
    book();
    ktax_running.used = ktax_booked.used = used;
}

static void mix(uint64_t word)
{
    now.trace = (now.trace ^ word) * HASH_STEP;
}

static void begin_slice(struct ktax_cpu *cpu)
{
    int before = (int)(ktax_cpu - ktax_cpus);
    int at = (int)(cpu - ktax_cpus);

    book();
    if (ktax_deadline_spend(KTAX_SLICE_COST)) {
        ktax_report_over();
    }
    debt[before] = ktax_running.used > KTAX_LIMIT ? ktax_running.used - KTAX_LIMIT : 0;
    if (cpu != ktax_cpu) {
        ktax_context_leave(cpu);
        ktax_cpu = cpu;
    }
    if (had_slice[at]) {
        end_round();
        begin_round();
    }
    had_slice[at] = true;
    mix(ktax_running.trace);
    mix((uint64_t)cpu->index);
    is_over = false;
    set_used(KTAX_LIMIT - (quantum > debt[at] ? quantum - debt[at] : 1));
}

void ktax_slices_restart(void)
{
    seed();
    ktax_deadline_restart();
    had_slice[ktax_cpu - ktax_cpus] = true;
    memset(debt, 0, sizeof(debt));
    is_over = false;
    set_used(KTAX_LIMIT - quantum);
}

/* In a block that begins in this slot; `data` has it, plus one. */
static void on_limit(unsigned int vcpu, void *data)
{
    struct ktax_cpu *cpu;

    (void)vcpu;
    if (!is_over) {
        if (data) {
            ktax_deadline_at(DOING_WORK, (int)(uintptr_t)data - 1);
        }
        now.kicks++;
        qemu_plugin_update_ns(time_control, 0);
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

/* The index is the translator's, who is in `data`, whoever executes. */
static void on_first(unsigned int vcpu, void *data)
{
    struct ktax_cpu *translator = data;

    if (translator) {
        if (translator->index >= 0 && translator->index != (int)vcpu) {
            fputs("ktax plugin: this QEMU gives the index of the vCPU that executes, which this "
                  "plugin does not expect; run QEMU 10.0\n", stderr);
            _exit(1);
        }
        translator->index = (int)vcpu;
    }
    if (ktax_running.used >= KTAX_LIMIT) {
        on_limit(vcpu, NULL);
    } else {
        on_turn(vcpu, NULL);
    }
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

    if (!translator || translator->index < 0) {
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_trace, QEMU_PLUGIN_CB_NO_REGS,
                                             (void *)(uintptr_t)word);
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_first, QEMU_PLUGIN_CB_R_REGS, translator);
        return -1;
    }
    ktax_counters_add_to_block(tb, &ktax_running.trace, word, translator->index);
    ktax_counters_call_from(tb, on_limit, (void *)(uintptr_t)(slot + 1), &ktax_running.used,
                            KTAX_LIMIT, translator->index);
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
        round_of[ktax_cpu - ktax_cpus].wait += KTAX_LIMIT - used;
        ktax_context_wait(slot, KTAX_LIMIT - used);
    }
    ktax_deadline_at(DOING_WAIT, slot);
    is_over = true;
    set_used(KTAX_LIMIT);
}

void ktax_slices_halt(int slot)
{
    ktax_main_thread_wait();
    ktax_deadline_at(DOING_IDLE, slot);
    halted_in[ktax_cpu - ktax_cpus] = slot;
    is_over = true;
    set_used(KTAX_LIMIT);
}

void ktax_slices_begin(void)
{
    if (ktax_one_cpu()) {
        return;
    }
    book();
    begin_round();
    had_slice[ktax_cpu - ktax_cpus] = true;
    ktax_running.trace = ktax_booked.trace = 0;
    now = (struct ktax_parallel){ .trace = HASH_START };
    is_open = true;
}

void ktax_slices_end(struct ktax_parallel *to)
{
    if (ktax_one_cpu()) {
        return;
    }
    book();
    mix(ktax_running.trace);
    end_round();
    begin_round();
    had_slice[ktax_cpu - ktax_cpus] = true;
    is_open = false;
    *to = now;
}
