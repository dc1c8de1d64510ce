/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "rounds.h"

#define HASH_START UINT64_C(1469598103934665603)
/* So long that a lock which is contended again and again has them all the time. */
enum { CONTENDED_ROUNDS = 32 };

#define HASH_STEP UINT64_C(1099511628211)

uint64_t ktax_quantum;
uint64_t ktax_contended_quantum;
uint64_t ktax_jitter;
uint64_t ktax_round_quantum;

static uint64_t random_state;
static struct ktax_time round_of[KTAX_CPUS];
static bool had_slice[KTAX_CPUS];

/* From its HLT on, to its next slice. */
struct halt {
    bool is_on;
    int slot;
    uint64_t since; /* on the clock of the makespan, when the slice of the HLT has ended */
};
static struct halt halts[KTAX_CPUS];
static int contended_rounds; /* that are still to come */

static struct ktax_parallel now;
static bool is_open;

static int current(void)
{
    return (int)(ktax_cpu - ktax_cpus);
}

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state * UINT64_C(0x2545f4914f6cdd1d)) >> 32;
}

static void begin_round(void)
{
    bool is_contended = contended_rounds > 0 && ktax_contended_quantum > 0;
    uint64_t usual = is_contended ? ktax_contended_quantum : ktax_quantum;

    for (int i = 0; i < ktax_cpu_count; i++) {
        round_of[i] = (struct ktax_time){ 0 };
        had_slice[i] = false;
    }
    contended_rounds -= is_contended;
    ktax_round_quantum = ktax_jitter ? usual / 2 + next_random() % usual : usual;
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
        now.times[i].work += round_of[i].work;
        now.times[i].wait += round_of[i].wait;
        if (!halts[i].is_on) {
            now.times[i].uneven += length - round_of[i].work - round_of[i].wait;
        }
    }
    now.makespan += length;
    now.rounds++;
}

void ktax_rounds_idle_so_far(int cpu)
{
    struct halt *halt = &halts[cpu];

    if (is_open && halt->is_on && now.makespan > halt->since) {
        now.times[cpu].idle += now.makespan - halt->since;
        ktax_context_idle(&ktax_cpus[cpu], halt->slot, now.makespan - halt->since);
        halt->since = now.makespan;
    }
}

/* All but the vCPU that executes wait to be started. */
static void halt_others(void)
{
    for (int i = 0; i < ktax_cpu_count; i++) {
        halts[i].is_on = i != current();
        halts[i].since = 0;
    }
}

void ktax_rounds_restart(void)
{
    random_state = ktax_jitter * UINT64_C(0x9e3779b97f4a7c15) | 1;
    contended_rounds = 0;
    halt_others();
    begin_round();
    had_slice[current()] = true;
}

void ktax_rounds_slice(int cpu)
{
    if (had_slice[cpu]) {
        end_round();
        begin_round();
    }
    ktax_rounds_idle_so_far(cpu);
    halts[cpu].is_on = false;
    had_slice[cpu] = true;
}

void ktax_rounds_work(uint64_t n)
{
    round_of[current()].work += n;
}

void ktax_rounds_wait(uint64_t n)
{
    round_of[current()].wait += n;
    contended_rounds = CONTENDED_ROUNDS;
}

void ktax_rounds_halt(int slot)
{
    halts[current()].is_on = true;
    halts[current()].slot = slot;
}

/* What it executed of the HLT's slice is counted by now. */
void ktax_rounds_slice_ends(void)
{
    const struct ktax_time *used = &round_of[current()];

    if (halts[current()].is_on) {
        halts[current()].since = now.makespan + used->work + used->wait;
    }
}

void ktax_rounds_kick(void)
{
    now.kicks++;
}

void ktax_rounds_mix(uint64_t word)
{
    now.trace = (now.trace ^ word) * HASH_STEP;
}

void ktax_rounds_begin(void)
{
    begin_round();
    had_slice[current()] = true;
    now = (struct ktax_parallel){ .trace = HASH_START };
    for (int i = 0; i < ktax_cpu_count; i++) {
        halts[i].since = 0;
    }
    is_open = true;
}

void ktax_rounds_end(struct ktax_parallel *to)
{
    if (!is_open) {
        return;
    }
    end_round();
    begin_round();
    had_slice[current()] = true;
    for (int i = 0; i < ktax_cpu_count; i++) {
        ktax_rounds_idle_so_far(i);
        halts[i].since = 0;
    }
    is_open = false;
    *to = now;
}
