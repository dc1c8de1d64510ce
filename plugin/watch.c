/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "watch.h"

#include "context.h"
#include "cpus.h"
#include "rep.h"
#include "slices.h"
#include "tasks.h"

/* What has been translated of __switch_to_asm. */
static bool switch_seen;
static bool switch_saves;
static bool switch_loads;

void ktax_call(struct qemu_plugin_insn *insn, qemu_plugin_exec_fn fn, int data)
{
    qemu_plugin_register_vcpu_insn_exec_cb(insn, fn, QEMU_PLUGIN_CB_NO_REGS,
                                           (void *)(uintptr_t)data);
}

static enum ktax_watch call(const struct ktax_insn *insn, qemu_plugin_exec_fn fn)
{
    ktax_call(insn->insn, fn, insn->slot);
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
void ktax_call_at_access(struct qemu_plugin_insn *insn, qemu_plugin_mem_fn fn, int data)
{
    qemu_plugin_register_vcpu_mem_cb(insn, fn, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                     (void *)(uintptr_t)data);
}

static enum ktax_watch watch_switch(const struct ktax_insn *insn)
{
    switch_seen = true;
    if (insn->kind == KIND_SAVE_STACK) {
        switch_saves = true;
        ktax_call_at_access(insn->insn, ktax_on_save_stack, 0);
    } else if (insn->kind == KIND_LOAD_STACK) {
        switch_loads = true;
        ktax_call_at_access(insn->insn, ktax_on_load_stack, 0);
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
        ktax_call(insn->insn, ktax_on_schedule, (int)insn->function->scheduling);
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
