/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "watch-calls.h"

#include "calls.h"
#include "jumps.h"

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
        ktax_call_at_access(insn->insn, ktax_on_call, 0);
    } else if (flow == FLOW_RETURN && thunk != THUNK_OF_CALLS) {
        int slot = is_return_only(insn, flow) ? insn->slot + 1 : 0;
        ktax_call_at_access(insn->insn, ktax_on_return, slot);
    } else if (flow == FLOW_IRETQ) {
        ktax_call_at_access(insn->insn, ktax_on_iretq_read, 0);
    } else if (flow == FLOW_JUMP && insn->function && insn->function->is_cold) {
        ktax_call(insn->insn, ktax_on_jump_back, 0);
    }
}

void ktax_watch_calls(const struct ktax_insn *insn, bool is_first, enum ktax_flow flow,
                       uint64_t target)
{
    const struct ktax_function *function = insn->function;

    if (function && function->is_cold && is_first) {
        ktax_call(insn->insn, ktax_on_cold, insn->slot);
    } else if (function && function->begin == insn->address) {
        if (function->thunk != THUNK_NONE && !is_return_only(insn, flow)) {
            bool is_of_calls = function->thunk == THUNK_OF_CALLS;
            ktax_call(insn->insn, ktax_on_thunk, 2 * insn->slot + is_of_calls);
        } else if (function->thunk == THUNK_NONE &&
                   (function->role == ROLE_NONE || function->role == ROLE_SWITCH ||
                    function->role == ROLE_START)) {
            ktax_call(insn->insn, ktax_on_enter, insn->slot);
        }
    }
    watch_flow(insn, flow, target);
}
