/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Chooses the callbacks of each instruction, and draws samples of stacks for a test. */
#include "watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "calls.h"
#include "context.h"
#include "counters.h"
#include "cpus.h"
#include "stacks.h"

/* What has been translated of __switch_to_asm. */
static bool switch_seen;
static bool switch_saves;
static bool switch_loads;

/* A callback before the instruction, and one at each of its memory accesses. */
static void watch_insn(struct qemu_plugin_insn *insn, qemu_plugin_exec_fn fn, int data)
{
    qemu_plugin_register_vcpu_insn_exec_cb(insn, fn, QEMU_PLUGIN_CB_NO_REGS,
                                           (void *)(uintptr_t)data);
}

static enum ktax_watch call(const struct ktax_insn *insn, qemu_plugin_exec_fn fn)
{
    watch_insn(insn->insn, fn, insn->slot);
    return WATCH_CALLBACK;
}

static enum ktax_watch call_to_count(const struct ktax_insn *insn, qemu_plugin_exec_fn fn,
                                     uint64_t value)
{
    void *data = (void *)(uintptr_t)value;

    qemu_plugin_register_vcpu_insn_exec_cb(insn->insn, fn, QEMU_PLUGIN_CB_NO_REGS, data);
    return WATCH_COUNTED;
}

/*
 * The callback of a memory access comes after the instruction was counted. QEMU 7.2 confuses reads
 * and writes here, so both are requested.
 */
static void watch_access(struct qemu_plugin_insn *insn, qemu_plugin_mem_fn fn, int data)
{
    qemu_plugin_register_vcpu_mem_cb(insn, fn, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                     (void *)(uintptr_t)data);
}

static enum ktax_watch watch_switch(const struct ktax_insn *insn)
{
    switch_seen = true;
    if (insn->kind == KIND_SAVE_STACK) {
        switch_saves = true;
        watch_access(insn->insn, ktax_on_save_stack, 0);
    } else if (insn->kind == KIND_LOAD_STACK) {
        switch_loads = true;
        watch_access(insn->insn, ktax_on_load_stack, 0);
    }
    return WATCH_NOTHING;
}

static enum ktax_watch watch_function(const struct ktax_insn *insn)
{
    bool first = insn->address == insn->function->begin;

    switch (insn->function->role) {
    case ROLE_SWITCH:
        return watch_switch(insn);
    case ROLE_STUBS:
        return call(insn, ktax_on_stub);
    case ROLE_INTERRUPT:
        return first ? call(insn, ktax_on_interrupt) : WATCH_NOTHING;
    case ROLE_EXCEPTION:
        return first ? call(insn, ktax_on_exception) : WATCH_NOTHING;
    case ROLE_NEW_TASK:
        return first ? call(insn, ktax_on_new_task) : WATCH_NOTHING;
    case ROLE_START:
        return first && ktax_context_of_boot ? call(insn, ktax_on_start) : WATCH_NOTHING;
    case ROLE_NONE:
        break;
    }
    if (first && ktax_one_cpu() && insn->function->scheduling != SCHEDULING_NOTHING) {
        watch_insn(insn->insn, ktax_on_schedule, (int)insn->function->scheduling);
        return WATCH_CALLBACK;
    }
    return WATCH_NOTHING;
}

static enum ktax_watch watch_rep(const struct ktax_insn *insn)
{
    return call_to_count(insn, ktax_rep_callback(insn->costly),
                         ktax_rep_site(insn->address, insn->slot));
}

static void on_pause(unsigned int vcpu, void *data)
{
    (void)vcpu;
    ktax_slices_pause((int)(uintptr_t)data);
}

static void on_halt(unsigned int vcpu, void *data)
{
    (void)vcpu;
    ktax_slices_halt((int)(uintptr_t)data);
}

static void on_slices_begin(unsigned int vcpu, void *data)
{
    (void)vcpu;
    (void)data;
    if (!ktax_one_cpu()) {
        ktax_slices_restart();
    }
}

/* Where one of several vCPUs waits. */
static enum ktax_watch watch_wait(const struct ktax_insn *insn, qemu_plugin_exec_fn fn)
{
    return ktax_one_cpu() ? WATCH_NOTHING : call(insn, fn);
}

bool ktax_watch_is_turn(enum ktax_kind kind)
{
    return kind == KIND_IRETQ || kind == KIND_PAUSE || kind == KIND_HALT ||
           kind == KIND_REGION_BEGIN || kind == KIND_REGION_END || kind == KIND_SLICES_BEGIN;
}

enum ktax_watch ktax_watch_kernel(const struct ktax_insn *insn)
{
    if (insn->kind == KIND_REP) {
        return watch_rep(insn);
    }
    if (insn->kind == KIND_PAUSE || insn->kind == KIND_HALT) {
        return watch_wait(insn, insn->kind == KIND_PAUSE ? on_pause : on_halt);
    }
    if (insn->kind == KIND_IRETQ && ktax_symbols_in_entry(insn->address)) {
        return call_to_count(insn, ktax_on_iretq, (uint64_t)insn->slot);
    }
    if (insn->kind == KIND_SYSRET) {
        return call_to_count(insn, ktax_on_sysret, (uint64_t)insn->slot);
    }
    return insn->function ? watch_function(insn) : WATCH_NOTHING;
}

enum ktax_watch ktax_watch_user(const struct ktax_insn *insn)
{
    switch (insn->kind) {
    case KIND_REGION_BEGIN:
        call(insn, ktax_on_region_begin);
        return WATCH_MARKER;
    case KIND_REGION_END:
        call(insn, ktax_on_region_end);
        return WATCH_MARKER;
    case KIND_SLICES_BEGIN:
        call(insn, on_slices_begin);
        return WATCH_MARKER;
    case KIND_REP:
        return watch_rep(insn);
    case KIND_PAUSE:
        return watch_wait(insn, on_pause);
    default:
        return WATCH_NOTHING;
    }
}

const char *ktax_kthread_split_failed(void)
{
    if (!ktax_symbols_have(ROLE_SWITCH)) {
        return "no symbol __switch_to_asm";
    }
    if (switch_seen && !(switch_saves && switch_loads)) {
        return "__switch_to_asm not recognised";
    }
    return ktax_tasks_full() ? "more than 12288 tasks" : NULL;
}

const char *ktax_interrupt_split_failed(void)
{
    if (!ktax_symbols_have(ROLE_INTERRUPT)) {
        return "no symbol asm_common_interrupt or asm_sysvec_*";
    }
    return ktax_context_lost() ? "the return of an interrupt was not seen" : NULL;
}

/* A call that only fills the buffer of returns goes on in its own function. */
static bool is_call(enum ktax_flow flow, uint64_t target)
{
    const struct ktax_function *called = target ? ktax_symbols_find(target) : NULL;

    return flow == FLOW_CALL && (!called || called->begin == target);
}

static bool is_return_only(const struct ktax_insn *insn, enum ktax_flow flow)
{
    return insn->function && insn->function->thunk == THUNK_OF_RETURNS &&
           insn->function->begin == insn->address && flow == FLOW_RETURN;
}

static void watch_flow(const struct ktax_insn *insn, enum ktax_flow flow, uint64_t target)
{
    enum ktax_thunk thunk = insn->function ? insn->function->thunk : THUNK_NONE;

    if (is_call(flow, target) && thunk == THUNK_NONE) {
        watch_access(insn->insn, ktax_on_call, 0);
    } else if (flow == FLOW_RETURN && thunk != THUNK_OF_CALLS) {
        int slot = is_return_only(insn, flow) ? insn->slot + 1 : 0;
        watch_access(insn->insn, ktax_on_return, slot);
    } else if (flow == FLOW_IRETQ) {
        watch_access(insn->insn, ktax_on_iretq_read, 0);
    } else if (flow == FLOW_JUMP && insn->function && insn->function->is_cold) {
        watch_insn(insn->insn, ktax_on_jump_back, 0);
    }
}

void ktax_watch_calls(const struct ktax_insn *insn, bool is_first, enum ktax_flow flow,
                      uint64_t target)
{
    const struct ktax_function *function = insn->function;

    if (function && function->is_cold && is_first) {
        watch_insn(insn->insn, ktax_on_cold, insn->slot);
    } else if (function && function->begin == insn->address) {
        if (function->thunk != THUNK_NONE && !is_return_only(insn, flow)) {
            bool is_of_calls = function->thunk == THUNK_OF_CALLS;
            watch_insn(insn->insn, ktax_on_thunk, 2 * insn->slot + is_of_calls);
        } else if (function->thunk == THUNK_NONE &&
                   (function->role == ROLE_NONE || function->role == ROLE_SWITCH ||
                    function->role == ROLE_START)) {
            watch_insn(insn->insn, ktax_on_enter, insn->slot);
        }
    }
    watch_flow(insn, flow, target);
}

enum { DISTANCE = 1500, REGISTERS = 6 };

static const char *const names[REGISTERS] = { "rsp", "rbp", "rdx", "rdi", "r10", "r13" };
static struct qemu_plugin_register *registers[REGISTERS];
static GByteArray *bytes;
static FILE *file;
static uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);
static uint64_t left = 1;

/* Instructions until the next one: xorshift. */
static uint64_t next_distance(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return 1 + seed % (2 * DISTANCE);
}

/* From the stack pointer to the end of the block that a stack fills. */
static void write_stack(uint64_t rsp)
{
    uint64_t end = ((rsp >> KTAX_STACK_SHIFT) + 1) << KTAX_STACK_SHIFT;
    size_t size = (size_t)(end - rsp) & ~(size_t)7;

    fprintf(file, "stack");
    if (qemu_plugin_read_memory_vaddr(rsp, bytes, size)) {
        for (unsigned i = 0; i + 8 <= bytes->len; i += 8) {
            uint64_t word;
            memcpy(&word, bytes->data + i, sizeof(word));
            fprintf(file, "\t%" PRIx64, word);
        }
    }
    fprintf(file, "\n");
}

/* Those that jumped to another function have its frame's address, and the last one is there. */
static void write_frames(const struct ktax_stack *stack)
{
    for (int i = stack->depth - 1; i >= 0; i--) {
        const struct ktax_frame *frame = &stack->frames[i];
        bool is_last = i == stack->depth - 1 || frame[1].address != frame->address;
        if (is_last) {
            fprintf(file, "frame\t%" PRIx64 "\t%s\n", frame->address,
                    ktax_slot_name(ktax_paths[frame->path].slot));
        }
    }
}

/* The kernel itself was interrupted. */
static bool has_entry(const struct ktax_stack *stack)
{
    for (int i = 0; i < stack->depth; i++) {
        if (stack->frames[i].is_entry) {
            return true;
        }
    }
    return false;
}

static void draw(uint64_t address)
{
    const struct ktax_stack *stack = ktax_calls_stack();
    uint64_t rsp = ktax_register_read(registers[0]);

    /* After a switch the stack is known at the next call or return. */
    if (!stack || stack->block != (rsp >> KTAX_STACK_SHIFT) + 1 || has_entry(stack) ||
        ktax_context_now() != CONTEXT_PROCESS) {
        return;
    }
    fprintf(file, "draw\t%" PRIx64, address);
    for (int i = 0; i < REGISTERS; i++) {
        fprintf(file, "\t%" PRIx64, ktax_register_read(registers[i]));
    }
    fprintf(file, "\n");
    write_frames(stack);
    write_stack(rsp);
}

static void on_insn(unsigned int vcpu, void *data)
{
    (void)vcpu;
    if (ktax_begins > ktax_ends && --left == 0) {
        left = next_distance();
        draw((uintptr_t)data);
    }
}

bool ktax_draw_open(const char *path)
{
    file = fopen(path, "wx");
    return file && ktax_registers_are_there() && qemu_plugin_read_memory_vaddr;
}

void ktax_draw_start(void)
{
    for (int i = 0; file && i < REGISTERS; i++) {
        registers[i] = ktax_register_find(names[i]);
    }
    bytes = file ? g_byte_array_new() : NULL;
}

void ktax_draw_watch(const struct ktax_insn *insn)
{
    if (file && insn->function && insn->function->thunk == THUNK_NONE) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn->insn, on_insn, QEMU_PLUGIN_CB_R_REGS,
                                               (void *)(uintptr_t)insn->address);
    }
}

void ktax_draw_close(void)
{
    if (file) {
        fclose(file);
    }
}
