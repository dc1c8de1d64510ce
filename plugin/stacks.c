/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "stacks.h"

#include <stdlib.h>
#include <string.h>

enum {
    STACKS = 1 << 14,
    DEPTH = 256,
};

static struct ktax_stack stacks[STACKS];
static const char *failed;

bool ktax_stack_grow(struct ktax_stack *stack)
{
    if (!stack->frames) {
        stack->frames = calloc(DEPTH, sizeof(*stack->frames));
        stack->room = stack->frames ? DEPTH : 0;
    }
    if (stack->depth == stack->room) {
        failed = "a stack is deeper than 256 calls";
    }
    return stack->depth < stack->room;
}

/* Its `block` is 0 if it was not known. */
static struct ktax_stack *find(uint64_t block)
{
    size_t first = block * UINT64_C(0x9e3779b97f4a7c15) >> 50;

    for (size_t i = 0; i < STACKS; i++) {
        struct ktax_stack *stack = &stacks[(first + i) % STACKS];
        if (stack->block == 0 || stack->block == block + 1) {
            return stack;
        }
    }
    failed = "more than 16384 stacks";
    return &stacks[first];
}

bool ktax_stack_may_be(const struct ktax_position *it, uint64_t address)
{
    uint64_t block = address >> KTAX_STACK_SHIFT;

    return !it->stack || it->is_switched || it->stack->block == block + 1 ||
           find(block)->block != 0;
}

struct ktax_stack *ktax_stack_find(struct ktax_position *it, uint64_t address, uint32_t base)
{
    uint64_t block = address >> KTAX_STACK_SHIFT;

    if (!it->stack || it->stack->block != block + 1) {
        it->stack = find(block);
        it->stack->block = block + 1;
    }
    if (it->is_switched && it->stack->depth > 0 &&
        it->stack->frames[it->stack->depth - 1].address < address) {
        it->stack->depth = 0; /* the frames of a task that is dead */
    }
    it->is_switched = false;
    if (it->is_nested) {
        struct ktax_frame *entry = ktax_stack_push(it->stack, address + 1, it->base);
        if (entry) {
            entry->is_entry = true;
            entry->called_at = it->was_called_at;
        }
        it->is_nested = false;
    } else if (it->stack->depth == 0) {
        it->stack->base = base;
    }
    return it->stack;
}

void ktax_stack_called(struct ktax_position *it, uint64_t address)
{
    if (it->called_at != 0) { /* nearly never: what is called begins at once */
        memmove(it->before + 1, it->before, sizeof(it->before) - sizeof(it->before[0]));
    }
    it->before[0] = it->called_at;
    it->called_at = address;
}

uint64_t ktax_stack_called_before_entry(const struct ktax_position *it, bool is_interrupt)
{
    int words = is_interrupt ? KTAX_FRAME_WORDS - 1 : KTAX_FRAME_WORDS;

    for (; words >= KTAX_FRAME_WORDS - 1; words--) {
        int same = 0;
        while (same < words - 1 && it->before[same] == it->called_at + 8 * (uint64_t)(same + 1)) {
            same++;
        }
        if (same == words - 1) {
            return it->before[same];
        }
    }
    return it->called_at;
}

const char *ktax_stacks_failed(void)
{
    return failed;
}
