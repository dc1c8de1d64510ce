/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shadow stacks. A call is known by the address to which it writes where it returns to, and a
 * return by the one from which it reads that. So they need no registers: a return pops all frames
 * up to its address. There is one for each block of memory as large as a stack, so that task
 * switches, and interrupts on stacks of their own, need nothing else.
 */
#ifndef KTAX_STACKS_H
#define KTAX_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KTAX_STACK_SHIFT = 14, /* THREAD_SIZE */
    KTAX_FRAME_WORDS = 6,  /* that the CPU pushes at most: an exception's, with its error code */
};

struct ktax_frame {
    uint64_t address;
    uint32_t path;
    bool is_entry;      /* of an interrupt or exception, which found the frames below */
    uint64_t called_at; /* by what it interrupted, and which has not begun; 0: nothing */
};

struct ktax_stack {
    uint64_t block; /* and 1, so that 0 is free */
    uint32_t base;  /* the path below all frames */
    int depth;
    int room;
    struct ktax_frame *frames;
};

/* Where a vCPU is. */
struct ktax_position {
    uint32_t path;              /* its path */
    uint32_t base;            /* of an entry's code, before it has called anything */
    uint32_t thunk;           /* the path of the last thunk, and from where it was entered */
    uint32_t thunk_caller;
    bool is_thunk_of_calls;
    struct ktax_stack *stack; /* NULL: not known yet */
    uint64_t called_at;       /* what is called there has not begun; 0: nothing is */
    uint64_t before[KTAX_FRAME_WORDS]; /* what that was before each last call, back to 0 */
    uint64_t was_called_at;   /* before the entry */
    bool is_nested;           /* the entry has no frame yet */
    bool is_at_iretq;         /* which has read nothing yet */
    bool is_switched;         /* to the stack of another task, which may not be known */
};

/* A retpoline returns to what it calls, and may jump to a thunk of returns for that. */
static inline bool ktax_is_in_thunk_of_calls(const struct ktax_position *pos)
{
    return pos->path == pos->thunk && pos->is_thunk_of_calls;
}

/* Code of an entry, before it has called anything. */
static inline bool ktax_is_entry_code(const struct ktax_position *pos)
{
    return !pos->stack || pos->is_nested || pos->stack->depth == 0;
}

/* The path of the last frame, or below all. */
static inline uint32_t ktax_stack_top(const struct ktax_stack *stack)
{
    return stack->depth > 0 ? stack->frames[stack->depth - 1].path : stack->base;
}

bool ktax_stack_grow(struct ktax_stack *stack);

/* NULL: it has no room. */
static inline struct ktax_frame *ktax_stack_push(struct ktax_stack *stack, uint64_t address,
                                                 uint32_t path)
{
    if (stack->depth == stack->room && !ktax_stack_grow(stack)) {
        return NULL;
    }
    struct ktax_frame *frame = &stack->frames[stack->depth++];
    frame->address = address;
    frame->path = path;
    frame->is_entry = false;
    return frame;
}

/* Has the stack of this address been selected, and has it frames? Nearly always. */
static inline bool ktax_stack_stays(const struct ktax_position *pos, uint64_t address)
{
    const struct ktax_stack *stack = pos->stack;

    return stack && stack->block == (address >> KTAX_STACK_SHIFT) + 1 && stack->depth > 0 &&
           !pos->is_nested && !pos->is_switched;
}

bool ktax_stack_may_be(const struct ktax_position *pos, uint64_t address);
struct ktax_stack *ktax_stack_find(struct ktax_position *pos, uint64_t address, uint32_t base);

/*
 * Can something return from there? QEMU 7.2 also calls for what the helper of a later instruction
 * reads, as of an XSAVE. That is no stack.
 */
static inline bool ktax_stack_is(const struct ktax_position *pos, uint64_t address)
{
    return ktax_stack_stays(pos, address) || ktax_stack_may_be(pos, address);
}

/* The stack of a call's or a return's address. If it has no frames, `base` is below them. */
static inline struct ktax_stack *ktax_stack_select(struct ktax_position *pos, uint64_t address,
                                                   uint32_t base)
{
    return ktax_stack_stays(pos, address) ? pos->stack : ktax_stack_find(pos, address, base);
}

/* Pops what has returned unseen. An entry goes on, and its code may begin with a call and go up. */
static inline void ktax_stack_call(struct ktax_stack *stack, uint64_t address)
{
    while (stack->depth > 0 && stack->frames[stack->depth - 1].address <= address) {
        struct ktax_frame *frame = &stack->frames[stack->depth - 1];
        if (frame->is_entry) {
            frame->address = address + 1;
            return;
        }
        stack->depth--;
    }
}

/* Pops what returns. True: what an entry interrupted goes on. */
static inline bool ktax_stack_return(struct ktax_position *pos, struct ktax_stack *stack,
                                     uint64_t address)
{
    bool is_return = false;

    while (stack->depth > 0 && stack->frames[stack->depth - 1].address <= address) {
        const struct ktax_frame *frame = &stack->frames[--stack->depth];
        if (frame->is_entry) {
            pos->base = stack->base;
            pos->called_at = frame->called_at;
            is_return = true;
        }
    }
    return is_return;
}

/*
 * Pops a function that moves where it returns to, as error_entry, and those to which it jumped, as
 * to sync_regs: they have its address.
 */
static inline void ktax_stack_return_moved(struct ktax_stack *stack)
{
    uint64_t address = stack->frames[stack->depth - 1].address;

    while (stack->depth > 0 && stack->frames[stack->depth - 1].address == address) {
        stack->depth--;
    }
}

/* Why not all frames could be kept, or NULL. */
const char *ktax_stacks_failed(void);

#endif
