/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The model's prediction of branches, and where code is in the guest's memory. machine.h has the
 * rules of the model.
 */
#include <stdlib.h>

#include "counters.h"
#include "decode.h"
#include "machine.h"
#include "symbols.h"

/*
 * QEMU tells where code is only in its own memory. The guest's is in one piece there, and the
 * kernel's code is linked to where it is loaded: the first instruction of it says where that piece
 * begins.
 */

#define KERNEL_IMAGE UINT64_C(0xffffffff80000000)

enum { PAGE_SHIFT = 12 };

static const char *memory; /* the guest's, in QEMU */

struct ktax_address ktax_address_of(const struct qemu_plugin_insn *insn)
{
    struct ktax_address place = { .address = qemu_plugin_insn_vaddr(insn) };
    const char *host = qemu_plugin_insn_haddr(insn);

    if (!memory && host && place.address >= KERNEL_IMAGE) {
        memory = host - (place.address - KERNEL_IMAGE);
    }
    place.physical = host && memory ? (uint64_t)(host - memory) + 1 : place.address + 1;
    return place;
}

struct ktax_address ktax_address_behind(const struct ktax_address *place, int64_t bytes)
{
    uint64_t address = place->address + (uint64_t)bytes;
    bool is_near = address >> PAGE_SHIFT == place->address >> PAGE_SHIFT;

    return (struct ktax_address){ address, is_near ? place->physical + (uint64_t)bytes : 0 };
}

/*
 * A branch ends a block, and where it went is where the next block begins. A program that is mapped
 * twice, at two addresses, shares its blocks, and QEMU tells the address of the first. So places
 * are compared by where they are in memory, and only those on another page by their addresses.
 *
 * Not every block was executed to its end: an exception, or an access to a device, leaves it in
 * its midst. So a branch counts only if the next block begins where it can lead. Nothing is known
 * of one behind which an interrupt came, but that calls and returns were executed. A branch to code
 * whose page is missing is not seen.
 */

enum kind {
    END_OTHER,
    END_JUMP,
    END_CONDITIONAL,
    END_INDIRECT,
    END_CALL,
    END_INDIRECT_CALL,
    END_RETURN,
};

struct block {
    struct ktax_address begin;
    struct ktax_address branch; /* its last instruction */
    struct ktax_address next;   /* what is behind that */
    struct ktax_address target; /* if that is in its bytes */
    int slot;
    enum kind kind;
    bool is_interrupt, is_exception; /* does one begin here? */
};

static struct ktax_branches_size size;
static uint8_t *counters;
static uint64_t *targets;
static struct ktax_address returns[MOST_RETURNS];
static uint32_t top;
static uint64_t history;
static const struct block *last;
static bool is_full;

bool ktax_branches_make(const struct ktax_branches_size *wanted)
{
    size = *wanted;
    counters = calloc(UINT64_C(1) << size.table, sizeof(*counters));
    targets = calloc(UINT64_C(1) << size.table, sizeof(*targets));
    return counters && targets;
}

bool ktax_branches_are_there(void)
{
    return counters && targets;
}

static uint64_t index_of(const struct block *block)
{
    uint64_t branch = block->branch.physical;

    return (branch ^ branch >> size.table ^ history) & ((UINT64_C(1) << size.table) - 1);
}

static void remember(bool bit)
{
    history = (history << 1 | bit) & ((UINT64_C(1) << size.history) - 1);
}

/* Was it predicted whether the branch is taken? */
static bool predict(const struct block *block, bool is_taken)
{
    uint8_t *counter = &counters[index_of(block)];
    bool is_predicted = (*counter >= 2) == is_taken;

    if (is_taken && *counter < 3) {
        (*counter)++;
    } else if (!is_taken && *counter > 0) {
        (*counter)--;
    }
    remember(is_taken);
    return is_predicted;
}

static bool predict_target(const struct block *block, const struct ktax_address *target)
{
    uint64_t *known = &targets[index_of(block)];
    bool is_predicted = *known == target->physical;

    *known = target->physical;
    remember(target->physical >> 4 & 1);
    return is_predicted;
}

static void push(const struct ktax_address *place)
{
    top = (top + 1) % size.returns;
    returns[top] = *place;
}

static struct ktax_address pop(void)
{
    struct ktax_address popped = returns[top];

    returns[top] = (struct ktax_address){ 0 };
    top = (top + size.returns - 1) % size.returns;
    return popped;
}

/* Can its last instruction have led there? */
static bool leads_to(const struct block *block, const struct ktax_address *target)
{
    switch (block->kind) {
    case END_OTHER:
        return false;
    case END_CONDITIONAL:
        return ktax_is_same_address(&block->target, target) ||
               ktax_is_same_address(&block->next, target);
    case END_JUMP:
    case END_CALL:
        return ktax_is_same_address(&block->target, target);
    default:
        return target->physical <= block->begin.physical ||
               target->physical > block->branch.physical;
    }
}

static void resolve(const struct block *block, const struct ktax_address *target)
{
    struct ktax_address expected;
    bool is_predicted = true;

    if (!leads_to(block, target)) {
        return;
    }
    switch (block->kind) {
    case END_OTHER:
    case END_JUMP:
        break;
    case END_CONDITIONAL:
        is_predicted = predict(block, !ktax_is_same_address(&block->next, target));
        break;
    case END_INDIRECT_CALL:
        is_predicted = predict_target(block, target);
        push(&block->next);
        break;
    case END_INDIRECT:
        is_predicted = predict_target(block, target);
        break;
    case END_CALL:
        push(&block->next);
        break;
    case END_RETURN:
        expected = pop();
        is_predicted = ktax_is_same_address(&expected, target);
        break;
    }
    ktax_machine_branch(block->slot, !is_predicted);
}

/* An interrupt came behind it. */
static void execute(const struct block *block)
{
    if (block->kind == END_CALL || block->kind == END_INDIRECT_CALL) {
        push(&block->next);
    } else if (block->kind == END_RETURN) {
        pop();
    }
}

static void on_block(unsigned int vcpu, void *data)
{
    const struct block *block = data;

    (void)vcpu;
    if (last && block->is_interrupt) {
        execute(last);
    } else if (last && !block->is_exception) {
        resolve(last, &block->begin);
    }
    last = block;
}

/* How long the distance to the target is in the bytes of a branch, or 0. */
static size_t distance_size(enum kind kind, size_t opcode, size_t length)
{
    bool is_direct = kind == END_JUMP || kind == END_CONDITIONAL || kind == END_CALL;

    return is_direct && length > opcode ? length - opcode : 0;
}

static void read_branch(struct block *block, const uint8_t *bytes, size_t length)
{
    size_t i = ktax_prefixes(bytes, length);
    uint8_t first = i < length ? bytes[i] : 0;
    uint8_t second = i + 1 < length ? bytes[i + 1] : 0;
    bool is_far = first == 0x0f && (second & 0xf0) == 0x80;
    int64_t distance = 0;

    if ((first & 0xf0) == 0x70 || (first & 0xfc) == 0xe0 || is_far) {
        block->kind = END_CONDITIONAL;
    } else if (first == 0xff && (second >> 3 & 7) == 2) {
        block->kind = END_INDIRECT_CALL;
    } else if (first == 0xff && (second >> 3 & 7) == 4) {
        block->kind = END_INDIRECT;
    } else if (first == 0xc2 || first == 0xc3) {
        block->kind = END_RETURN;
    } else if (first == 0xe8) {
        block->kind = END_CALL;
    } else if (first == 0xe9 || first == 0xeb) {
        block->kind = END_JUMP;
    }
    size_t count = distance_size(block->kind, i + 1 + is_far, length);
    for (size_t k = 0; k < count; k++) {
        distance |= (int64_t)((uint64_t)bytes[length - count + k] << 8 * k);
    }
    if (count > 0 && count < 8) {
        int unused = (int)(64 - 8 * count);
        distance = (int64_t)((uint64_t)distance << unused) >> unused;
    }
    block->next = ktax_address_behind(&block->branch, (int64_t)length);
    block->target = ktax_address_behind(&block->branch, (int64_t)length + distance);
}

void ktax_branches_watch(struct qemu_plugin_tb *tb, const struct qemu_plugin_insn *end, int slot)
{
    struct block *block = ktax_record(sizeof(*block));
    uint8_t bytes[16];

    if (!block) {
        is_full = true;
        return;
    }
    block->begin = ktax_address_of(qemu_plugin_tb_get_insn(tb, 0));
    block->branch = ktax_address_of(end);
    block->slot = slot;
    read_branch(block, bytes, ktax_insn_bytes(end, bytes, sizeof(bytes)));
    uint64_t begin = block->begin.address;
    const struct ktax_function *function = begin >> 63 ? ktax_symbols_find(begin) : NULL;
    if (function && (function->begin == begin || function->role == ROLE_STUBS)) {
        block->is_interrupt = function->role == ROLE_INTERRUPT || function->role == ROLE_STUBS;
        block->is_exception = function->role == ROLE_EXCEPTION;
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, block);
}

bool ktax_branches_full(void)
{
    return is_full;
}
