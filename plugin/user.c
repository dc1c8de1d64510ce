/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A plugin does not see address spaces, so a block of user mode is looked up by its bytes: the code
 * of x86-64 is the same in memory as in the file. Pages are mapped as they are in the file, so the
 * last twelve bits of an address are the same, too. Where a file was found once, it is looked for
 * first, the last one before the others. So short blocks, which many files have, are of the file
 * that runs.
 */
#include "user.h"

#include <stdio.h>
#include <string.h>

#include "counters.h"
#include "text.h"

enum { PAGE = 4096, MOST_BYTES = 64, LEAST_BYTES = 8, MAPPINGS = 256, LONGEST_NAME = 192 };

/* Where a segment is: address = address in the file + delta. */
struct mapping {
    const struct ktax_text *text;
    uint64_t delta;
};

struct block {
    uint64_t address;
    uint8_t bytes[MOST_BYTES];
    size_t size;
};

static struct mapping mappings[MAPPINGS]; /* the one that was used last first */
static size_t mapping_count;
static const struct mapping *here; /* NULL: the block is of no file */

bool ktax_user_load(const char *archive, const char *functions)
{
    return ktax_text_load(archive, functions);
}

/* The bytes of a block as far as they are on one page: the next one may be of another file. */
static void read_block(const struct qemu_plugin_tb *tb, struct block *block)
{
    size_t count = qemu_plugin_tb_n_insns(tb);

    block->size = 0;
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        uint8_t bytes[16];
        size_t size = ktax_insn_bytes(insn, bytes, sizeof(bytes));
        if (i == 0) {
            block->address = address;
        }
        if (block->size + size > MOST_BYTES || ((address + size - 1) ^ block->address) >= PAGE) {
            return;
        }
        memcpy(block->bytes + block->size, bytes, size);
        block->size += size;
    }
}

static bool is_at(const struct block *block, const struct ktax_text *text, uint64_t address)
{
    uint64_t offset = address - text->address;

    return address >= text->address && text->size >= block->size &&
           offset <= text->size - block->size &&
           memcmp(text->bytes + offset, block->bytes, block->size) == 0;
}

static const struct mapping *use(struct mapping mapping, size_t at)
{
    memmove(mappings + 1, mappings, at * sizeof(*mappings));
    mappings[0] = mapping;
    return mappings;
}

static const struct mapping *find_known(const struct block *block)
{
    for (size_t i = 0; i < mapping_count; i++) {
        if (is_at(block, mappings[i].text, block->address - mappings[i].delta)) {
            return use(mappings[i], i);
        }
    }
    return NULL;
}

/* Looks on every page of every file. More than one place is none. */
static const struct mapping *find_new(const struct block *block)
{
    struct mapping found = { 0 };

    for (size_t i = 0; i < ktax_text_count; i++) {
        const struct ktax_text *text = &ktax_texts[i];
        uint64_t address = (text->address & ~(uint64_t)(PAGE - 1)) | (block->address & (PAGE - 1));
        for (; address < text->address + text->size; address += PAGE) {
            if (is_at(block, text, address)) {
                if (found.text) {
                    return NULL;
                }
                found = (struct mapping){ text, block->address - address };
            }
        }
    }
    if (!found.text) {
        return NULL;
    }
    mapping_count += mapping_count < MAPPINGS;
    return use(found, mapping_count - 1);
}

void ktax_user_block(const struct qemu_plugin_tb *tb)
{
    struct block block;

    here = NULL;
    if (ktax_text_count == 0) {
        return;
    }
    read_block(tb, &block);
    if (block.size > 0) {
        here = find_known(&block);
    }
    if (!here && block.size >= LEAST_BYTES) {
        here = find_new(&block);
    }
}

static struct ktax_user_function *find_function(struct ktax_object *object, uint64_t address)
{
    size_t low = 0;
    size_t high = object->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (object->functions[middle].begin <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    struct ktax_user_function *function = low > 0 ? &object->functions[low - 1] : NULL;
    return function && address < function->end ? function : NULL;
}

int ktax_user_slot(uint64_t address)
{
    if (!here) {
        return SLOT_USER;
    }
    struct ktax_object *object = &ktax_objects[here->text->object];
    struct ktax_user_function *function = find_function(object, address - here->delta);
    int *slot = function ? &function->slot : &object->slot;
    if (*slot < 0) {
        char name[LONGEST_NAME];
        snprintf(name, sizeof(name), "[%s]%s", object->name, function ? function->name : "");
        *slot = ktax_slot_of_user(name);
    }
    return *slot;
}
