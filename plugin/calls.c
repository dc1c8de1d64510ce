/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "calls.h"

#include "counters.h"
#include "cpus.h"
#include "paths.h"
#include "stacks.h"

static uint32_t in_user;
static uint64_t last_total;
static uint64_t last_reps;

static inline struct ktax_position *here(void)
{
    return &ktax_cpu->position;
}

static inline void flush(const struct ktax_position *it, enum ktax_context context, uint64_t now)
{
    uint64_t reps = ktax_reps_total - last_reps;

    if (now != last_total) {
        struct ktax_path_counts *to = ktax_path_counts(it->at, context);
        to->insns += now - last_total;
        last_total = now;
        if (reps != 0) {
            to->insns -= reps;
            to->reps += reps;
            last_reps += reps;
        }
    }
}

void ktax_calls_flush(uint64_t next)
{
    flush(here(), ktax_context_now(), ktax_total() + next);
}

void ktax_calls_iretq(void)
{
    ktax_calls_flush(1);
    here()->is_at_iretq = true;
}

/*
 * QEMU 7.2 also calls for what helpers of later instructions access, as those of an interrupt read
 * tables and write its frame. A call writes one word, and a return reads one. QEMU says the same
 * of the same `info`, and is slower.
 */
static inline bool is_word(qemu_plugin_meminfo_t info, bool is_store)
{
    static qemu_plugin_meminfo_t known[2] = { UINT32_MAX, UINT32_MAX };

    if (info == known[is_store]) {
        return true;
    }
    bool is = qemu_plugin_mem_is_store(info) == is_store && qemu_plugin_mem_size_shift(info) == 3;
    if (is) {
        known[is_store] = info;
    }
    return is;
}

const struct ktax_stack *ktax_calls_stack(void)
{
    const struct ktax_position *it = here();

    return ktax_is_entry_code(it) || it->is_switched ? NULL : it->stack;
}

/* Who calls what begins here. */
static uint32_t caller(const struct ktax_position *it)
{
    return it->at == it->thunk ? it->thunk_caller : it->at;
}

static void count_call(uint32_t path)
{
    ktax_path_counts(path, ktax_context_now())->calls++;
}

static void jump_to(struct ktax_position *it, int slot)
{
    struct ktax_stack *stack = it->stack;

    if (ktax_is_entry_code(it)) {
        it->at = it->base = ktax_paths_child(caller(it), slot);
        count_call(it->at);
        return;
    }
    uint64_t address = stack->frames[stack->depth - 1].address;
    for (int i = stack->depth - 1; i >= 0 && stack->frames[i].address == address; i--) {
        if (ktax_paths[stack->frames[i].path].slot == slot) {
            stack->depth = i + 1; /* code that jumps in circles */
            it->at = ktax_stack_top(stack);
            return;
        }
    }
    it->at = ktax_paths_child(ktax_stack_top(stack), slot);
    ktax_stack_push(stack, address, it->at);
    count_call(it->at);
}

static void enter_from_user(struct ktax_position *it, int slot)
{
    it->at = it->base = ktax_paths_child(PATH_ROOT, slot);
    it->stack = NULL;
    it->is_nested = false;
    it->called_at = 0;
    count_call(it->at);
}

static void enter(int slot)
{
    struct ktax_position *it = here();
    enum ktax_context context = ktax_context_now();
    uint64_t address = it->called_at;

    flush(it, context, ktax_total());
    if (address != 0) {
        struct ktax_stack *stack = ktax_stack_select(it, address, caller(it));
        ktax_stack_call(stack, address);
        it->at = ktax_paths_child(ktax_stack_top(stack), slot);
        ktax_stack_push(stack, address, it->at);
        it->called_at = 0;
        ktax_path_counts(it->at, context)->calls++;
    } else if (it->at == in_user) {
        enter_from_user(it, slot);
    } else {
        jump_to(it, slot);
    }
}

void ktax_on_enter(unsigned int vcpu, void *data)
{
    (void)vcpu;
    enter((int)(uintptr_t)data);
}

/* An indirect call may also read where it goes to. */
void ktax_on_call(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    (void)vcpu;
    (void)data;
    if (is_word(info, true)) {
        ktax_stack_called(here(), address);
    }
}

/* A thunk that only returns is the slot in `data`, plus one. */
void ktax_on_return(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    struct ktax_position *it = here();

    (void)vcpu;
    if (!is_word(info, false) || it->at == in_user || !ktax_stack_is(it, address)) {
        return;
    }
    enum ktax_context context = ktax_context_now();
    if (data) {
        uint32_t thunk = ktax_paths_child(caller(it), (int)(uintptr_t)data - 1);
        ktax_path_counts(thunk, context)->insns++;
        last_total++;
    }
    if (ktax_is_in_thunk_of_calls(it)) {
        return;
    }
    flush(it, context, ktax_total());
    uint64_t called_at = it->called_at;
    it->called_at = 0;
    if (called_at == address) {
        return; /* of code outside of every function, as of a filter of packets */
    }
    struct ktax_stack *stack = ktax_stack_select(it, address, it->base);
    int depth = stack->depth;
    if (depth == 0) {
        it->base = stack->base = PATH_ROOT; /* to a caller that was not seen */
    }
    ktax_stack_return(it, stack, address);
    if (stack->depth == depth && depth > 0) {
        ktax_stack_return_moved(stack);
    }
    it->at = ktax_stack_top(stack);
}

/* Reads the five words of its frame, from the lowest on. */
void ktax_on_iretq_read(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    struct ktax_position *it = here();

    (void)vcpu;
    (void)info;
    (void)data;
    if (!it->is_at_iretq || !ktax_stack_is(it, address)) {
        return;
    }
    it->is_at_iretq = false;
    ktax_calls_flush(0);
    struct ktax_stack *stack = ktax_stack_select(it, address, it->base);
    if (ktax_stack_return(it, stack, address)) {
        it->at = ktax_stack_top(stack);
    } else if (stack->depth == 0) {
        it->at = in_user;
    }
}

void ktax_calls_enter(int slot, bool is_interrupt)
{
    struct ktax_position *it = here();

    ktax_calls_flush(0);
    if (it->at == in_user) {
        enter_from_user(it, slot);
        return;
    }
    it->at = it->base = ktax_paths_child(is_interrupt ? PATH_ROOT : it->at, slot);
    it->is_nested = true;
    it->was_called_at = ktax_stack_called_before_entry(it, is_interrupt);
    it->called_at = 0;
    count_call(it->at);
}

void ktax_calls_jump(int slot)
{
    enter(slot);
}

void ktax_calls_new_task(int slot)
{
    struct ktax_position *it = here();

    if (it->called_at != 0) {
        enter(slot);
        return;
    }
    ktax_calls_flush(0);
    it->at = it->base = ktax_paths_child(PATH_ROOT, slot);
    it->is_nested = false;
    if (it->stack) {
        it->stack->depth = 0;
    }
    count_call(it->at);
}

void ktax_calls_switch(void)
{
    ktax_calls_flush(0);
    here()->base = PATH_ROOT;
    here()->is_switched = true;
}

void ktax_calls_leave(void)
{
    here()->at = in_user;
}

static void count_below(uint32_t at, int slot, enum ktax_context context, uint64_t n)
{
    uint32_t path = ktax_paths_child(at, slot);

    if (path != at) { /* there is room */
        ktax_path_counts(path, context)->calls += n;
    }
}

void ktax_calls_costly(int kind)
{
    count_below(here()->at, PATH_COSTLY + kind, ktax_context_now(), 1);
}

void ktax_calls_wait(uint64_t n)
{
    count_below(here()->at, PATH_WAIT, ktax_context_now(), n);
}

void ktax_calls_idle(uint32_t path, uint64_t n)
{
    count_below(path, PATH_IDLE, CONTEXT_PROCESS, n);
}

uint32_t ktax_calls_here(void)
{
    return here()->at;
}

void ktax_calls_begin(void)
{
    in_user = ktax_paths_child(PATH_ROOT, SLOT_USER);
    ktax_paths_clear();
    last_total = ktax_total();
    last_reps = ktax_reps_total;
    here()->at = in_user;
}
