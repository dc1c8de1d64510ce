/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "jumps.h"

#include "calls.h"
#include "cpus.h"
#include "paths.h"

void ktax_on_thunk(unsigned int vcpu, void *data)
{
    struct ktax_position *it = &ktax_cpu->position;

    (void)vcpu;
    ktax_calls_flush(0);
    it->is_thunk_of_calls = (uintptr_t)data & 1 || ktax_is_in_thunk_of_calls(it);
    it->thunk_caller = it->stack && !it->is_nested ? ktax_stack_top(it->stack) : it->base;
    it->at = it->thunk = ktax_paths_child(it->thunk_caller, (int)((uintptr_t)data >> 1));
}

/* The compiler puts code that is seldom executed apart, and jumps there and back. */
void ktax_on_cold(unsigned int vcpu, void *data)
{
    struct ktax_position *it = &ktax_cpu->position;
    int slot = (int)(uintptr_t)data;

    (void)vcpu;
    if (ktax_paths[it->at].slot != slot) {
        ktax_calls_flush(0);
        it->at = ktax_paths_child(it->at, slot);
    }
}

void ktax_on_jump_back(unsigned int vcpu, void *data)
{
    struct ktax_position *it = &ktax_cpu->position;

    (void)vcpu;
    (void)data;
    ktax_calls_flush(0);
    if (!ktax_is_entry_code(it)) {
        it->at = ktax_stack_top(it->stack);
    }
}
