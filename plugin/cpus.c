/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Several vCPUs: who executes, in slices and rounds of how many instructions, and until when. */
#include "cpus.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "context.h"
#include "counters.h"
#include "qemu_api.h"

static GByteArray *bytes;

bool ktax_registers_are_there(void)
{
    return qemu_plugin_get_registers && qemu_plugin_read_register && g_byte_array_new &&
           g_byte_array_set_size;
}

struct qemu_plugin_register *ktax_register_find(const char *name)
{
    GArray *registers = qemu_plugin_get_registers();
    const qemu_plugin_reg_descriptor *all = (const qemu_plugin_reg_descriptor *)registers->data;

    for (unsigned i = 0; i < registers->len; i++) {
        if (strcmp(all[i].name, name) == 0) {
            return all[i].handle;
        }
    }
    return NULL;
}

/* What QEMU returns is a size until API 5, and a boolean from 6 on. */
bool ktax_register_get(struct qemu_plugin_register *handle, uint64_t *value)
{
    if (!handle) {
        return false;
    }
    bytes = bytes ? bytes : g_byte_array_new();
    g_byte_array_set_size(bytes, 0);
    qemu_plugin_read_register(handle, bytes);
    bool is_there = bytes->len == sizeof(*value);
    if (is_there) {
        memcpy(value, bytes->data, sizeof(*value));
    }
    return is_there;
}

uint64_t ktax_register_read(struct qemu_plugin_register *handle)
{
    uint64_t value = 0;

    return ktax_register_get(handle, &value) ? value : 0;
}

/* QEMU's main thread, which moves the clock where all vCPUs are idle. */

/* Longer than any host lets a thread wait for its turn. */
enum { TRIES = 1000000 };

static int file = -1;

static bool is_poll(long call)
{
#ifdef SYS_poll
    if (call == SYS_poll || call == SYS_epoll_wait) {
        return true;
    }
#endif
    return call == SYS_ppoll || call == SYS_epoll_pwait;
}

/* The number of the system call in which a thread sleeps; "running" has none. */
static bool waits_for_events(void)
{
    char text[128] = "";
    ssize_t n = pread(file, text, sizeof(text) - 1, 0);

    if (n <= 0) {
        return true; /* this host does not tell */
    }
    return text[0] >= '0' && text[0] <= '9' && is_poll(strtol(text, NULL, 10));
}

/*
 * Waits until the main thread waits for events, of which there can be none until a vCPU says that
 * all are idle.
 *
 * Call it before a vCPU halts, which may be the last one. QEMU marks the vCPU as idle a moment
 * before the clock has what it executed. If the main thread, woken before and delayed by the host,
 * looks at the clock in this moment, the clock jumps by so much too far.
 */
static void wait_for_main_thread(void)
{
    if (file < 0) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", getpid());
        file = open(path, O_RDONLY | O_CLOEXEC);
    }
    for (int i = 0; file >= 0 && i < TRIES && !waits_for_events(); i++) {
        sched_yield();
    }
}

/*
 * Ends the slice of the vCPU that executes, behind this block, and leaves the clock where it is.
 *
 * The API has no function for that. Most QEMUs export for their modules what they use themselves,
 * cpu_exit(); with it the next vCPU goes on at once. One that exports nothing has
 * qemu_plugin_update_ns(), which leaves work for the vCPU. To do it QEMU ends the slices of all
 * vCPUs, and wakes its other threads, which takes five times as long.
 */

static const void *time_control;

/* False: this QEMU has no such function. */
static bool can_end_slices(void)
{
    if (qemu_plugin_request_time_control && qemu_plugin_update_ns) {
        time_control = qemu_plugin_request_time_control();
    }
    return time_control != NULL;
}

/* Call it where a vCPU executes. */
static void end_slice(void)
{
    if (cpu_exit) {
        cpu_exit(current_cpu);
    } else {
        qemu_plugin_update_ns(time_control, 0);
    }
}

/* Until a boot has made the areas, the first vCPU uses one within the kernel's image. */
#define IMAGE UINT64_C(0xffffffff80000000)

int ktax_cpu_count = 1;
struct ktax_cpu ktax_cpus[KTAX_CPUS];
struct ktax_cpu *ktax_cpu = &ktax_cpus[0];

struct ktax_running ktax_running = { .used = KTAX_LIMIT };
uint64_t ktax_cpus_booked;
struct ktax_running ktax_booked = { .used = KTAX_LIMIT };

static struct qemu_plugin_register *gs_base;
static struct qemu_plugin_register *kernel_gs_base;

bool ktax_cpus_init(int count)
{
    ktax_cpu_count = count;
    for (int i = 0; i < KTAX_CPUS; i++) {
        ktax_cpus[i].index = -1;
        ktax_cpus[i].task = &ktax_cpus[i].first_task;
    }
    /* A vCPU alone executes the guest program; of several most are idle. */
    ktax_cpus[0].first_task.user = ktax_one_cpu();
    return ktax_one_cpu() || (count <= KTAX_CPUS && ktax_registers_are_there());
}

void ktax_cpus_start(void)
{
    if (!ktax_one_cpu() && !gs_base) {
        gs_base = ktax_register_find("gs_base");
        kernel_gs_base = ktax_register_find("k_gs_base");
    }
}

struct ktax_cpu *ktax_cpus_read(void)
{
    uint64_t base = ktax_register_read(gs_base);

    /* In user mode, and on the first instructions of an entry, the kernel's base is swapped out. */
    if (!(base >> 63)) {
        base = ktax_register_read(kernel_gs_base);
    }
    if (!(base >> 63) || base >= IMAGE) {
        return NULL;
    }
    for (int i = 0; i < ktax_cpu_count; i++) {
        if (ktax_cpus[i].base == 0) {
            ktax_cpus[i].base = base;
        }
        if (ktax_cpus[i].base == base) {
            return &ktax_cpus[i];
        }
    }
    return NULL;
}

uint64_t ktax_cpus_total(void)
{
    return ktax_cpu->total + ktax_running.used - ktax_booked.used;
}

uint64_t ktax_cpus_user(void)
{
    return ktax_cpu->user + ktax_running.user - ktax_booked.user;
}

uint64_t ktax_deadline;
struct ktax_place ktax_places[KTAX_CPUS];

static uint64_t spent;

/* The slice of the vCPU that executes ends here. */
static void deadline_at(enum ktax_doing doing, int slot)
{
    ktax_places[ktax_cpu - ktax_cpus] = (struct ktax_place){ doing, slot };
}

/* True: the time is over. */
static bool deadline_spend(uint64_t n)
{
    spent += n;
    return ktax_deadline > 0 && spent >= ktax_deadline;
}

/* The time begins. */
static void deadline_restart(void)
{
    spent = 0;
}

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

/* Quanta follow from the seed anew, and the vCPU that executes has its first slice. */
static void rounds_restart(void)
{
    random_state = ktax_jitter * UINT64_C(0x9e3779b97f4a7c15) | 1;
    contended_rounds = 0;
    halt_others();
    begin_round();
    had_slice[current()] = true;
}

/* A vCPU begins a slice: of this round, or of the next one. */
static void rounds_slice(int cpu)
{
    if (had_slice[cpu]) {
        end_round();
        begin_round();
    }
    ktax_rounds_idle_so_far(cpu);
    halts[cpu].is_on = false;
    had_slice[cpu] = true;
}

/* The vCPU that executes dispatched so many instructions. */
static void rounds_work(uint64_t n)
{
    round_of[current()].work += n;
}

/* The vCPU that executes waited for so many instructions. */
static void rounds_wait(uint64_t n)
{
    round_of[current()].wait += n;
    contended_rounds = CONTENDED_ROUNDS;
}

/* It is halted at this slot: when its slice has ended it is idle, until it begins another one. */
static void rounds_halt(int slot)
{
    halts[current()].is_on = true;
    halts[current()].slot = slot;
}

/* What it executed of the HLT's slice is counted by now. */
static void rounds_slice_ends(void)
{
    const struct ktax_time *used = &round_of[current()];

    if (halts[current()].is_on) {
        halts[current()].since = now.makespan + used->work + used->wait;
    }
}

/* A slice ended because the quantum was used up. */
static void rounds_kick(void)
{
    now.kicks++;
}

/* Mixes something into the trace that another order of execution would not have. */
static void rounds_mix(uint64_t word)
{
    now.trace = (now.trace ^ word) * HASH_STEP;
}

/* At the marker that begins a region. */
static void rounds_begin(void)
{
    begin_round();
    had_slice[current()] = true;
    now = (struct ktax_parallel){ .trace = HASH_START };
    for (int i = 0; i < ktax_cpu_count; i++) {
        halts[i].since = 0;
    }
    is_open = true;
}

/* At the marker that ends a region. */
static void rounds_end(struct ktax_parallel *to)
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

/*
 * A slice ends behind a block. Blocks are not divided: what a slice is too long is taken from the
 * next one of that vCPU.
 *
 * Generated code counts `used` up to KTAX_LIMIT and then calls. A slice that the vCPU ends itself
 * sets it there, so that the next block calls, too. QEMU also ends slices before a timer is due;
 * those are seen where the context changes, and until then one vCPU is taken for another.
 */

static bool is_over = true; /* before the next block */
static uint64_t debt[KTAX_CPUS];

bool ktax_slices_init(void)
{
    rounds_restart();
    return ktax_quantum > 0 && can_end_slices();
}

/* Gives what was dispatched since the last call to the vCPU. */
static void book(void)
{
    uint64_t dispatched = ktax_running.used - ktax_booked.used;

    rounds_work(dispatched);
    deadline_spend(dispatched);
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
    if (deadline_spend(KTAX_SLICE_COST)) {
        ktax_report_over();
    }
    rounds_slice_ends();
    debt[ktax_cpu - ktax_cpus] =
        ktax_running.used > KTAX_LIMIT ? ktax_running.used - KTAX_LIMIT : 0;
    if (next != ktax_cpu) {
        ktax_context_leave(next);
        ktax_cpu = next;
    }
}

static void begin_slice(struct ktax_cpu *cpu)
{
    int index = (int)(cpu - ktax_cpus);

    leave(cpu);
    rounds_slice(index);
    rounds_mix(ktax_running.trace);
    rounds_mix((uint64_t)cpu->index);
    is_over = false;
    uint64_t quantum = ktax_round_quantum;
    set_used(KTAX_LIMIT - (quantum > debt[index] ? quantum - debt[index] : 1));
}

void ktax_slices_restart(void)
{
    rounds_restart();
    deadline_restart();
    memset(debt, 0, sizeof(debt));
    is_over = false;
    set_used(KTAX_LIMIT - ktax_round_quantum);
}

static void on_limit(unsigned int vcpu, void *slot)
{
    struct ktax_cpu *cpu;

    (void)vcpu;
    if (!is_over) {
        deadline_at(DOING_WORK, (int)(uintptr_t)slot);
        rounds_kick();
        end_slice();
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
    void *slot_data = (void *)(uintptr_t)slot;

    if (!translator || translator->index < 0) {
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_trace, QEMU_PLUGIN_CB_NO_REGS,
                                             (void *)(uintptr_t)word);
        if (translator) {
            qemu_plugin_register_vcpu_tb_exec_cb(tb, on_index, QEMU_PLUGIN_CB_NO_REGS, translator);
        }
        qemu_plugin_register_vcpu_tb_exec_cb(tb, on_first, QEMU_PLUGIN_CB_R_REGS, slot_data);
        return -1;
    }
    ktax_counters_add_to_block(tb, &ktax_running.trace, word, translator->index);
    ktax_counters_call_from(tb, on_limit, slot_data, &ktax_running.used, KTAX_LIMIT,
                            translator->index);
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
        rounds_wait(KTAX_LIMIT - used);
        ktax_context_wait(slot, KTAX_LIMIT - used);
    }
    deadline_at(DOING_WAIT, slot);
    is_over = true;
    set_used(KTAX_LIMIT);
}

/* This may be the last that halts: who is halted is not always seen. */
void ktax_slices_halt(int slot)
{
    wait_for_main_thread();
    deadline_at(DOING_IDLE, slot);
    rounds_halt(slot);
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
    rounds_begin();
}

void ktax_slices_end(struct ktax_parallel *to)
{
    if (ktax_one_cpu()) {
        return;
    }
    book();
    rounds_mix(ktax_running.trace);
    rounds_end(to);
}
