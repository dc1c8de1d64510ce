/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "draw.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "calls.h"
#include "context.h"
#include "counters.h"
#include "paths.h"
#include "registers.h"
#include "stacks.h"

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
