/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "watch-calls.h"

#include "calls.h"

static void call_at_access(struct qemu_plugin_insn *insn, qemu_plugin_mem_fn fn, int data)
{
    qemu_plugin_register_vcpu_mem_cb(insn, fn, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                     (void *)(uintptr_t)data);
}

static void call(struct qemu_plugin_insn *insn, qemu_plugin_exec_fn fn, int slot)
{
    qemu_plugin_register_vcpu_insn_exec_cb(insn, fn, QEMU_PLUGIN_CB_NO_REGS,
                                           (void *)(uintptr_t)slot);
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
        call_at_access(insn->insn, target ? ktax_on_direct_call : ktax_on_call, 0);
    } else if (flow == FLOW_RETURN && thunk != THUNK_OF_CALLS) {
        call_at_access(insn->insn, ktax_on_return, is_return_only(insn, flow) ? insn->slot + 1 : 0);
    } else if (flow == FLOW_IRETQ) {
        call_at_access(insn->insn, ktax_on_iretq_read, 0);
    } else if (flow == FLOW_JUMP && insn->function && insn->function->is_cold) {
        call(insn->insn, ktax_on_jump_back, 0);
    }
}

void ktax_watch_calls(const struct ktax_insn *insn, bool is_first, enum ktax_flow flow,
                       uint64_t target)
{
    const struct ktax_function *function = insn->function;

    if (function && function->is_cold && is_first) {
        call(insn->insn, ktax_on_cold, insn->slot);
    } else if (function && function->begin == insn->address) {
        if (function->thunk != THUNK_NONE && !is_return_only(insn, flow)) {
            call(insn->insn, ktax_on_thunk, insn->slot);
        } else if (function->thunk == THUNK_NONE &&
                   (function->role == ROLE_NONE || function->role == ROLE_SWITCH ||
                    function->role == ROLE_START)) {
            call(insn->insn, ktax_on_enter, insn->slot);
        }
    }
    watch_flow(insn, flow, target);
}
