/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpus.h"
#include "symbol-file.h"

/* No variable is larger. Memory farther behind a symbol does not belong to it. */
#define LARGEST_VARIABLE (UINT64_C(16) << 20)
#define LINE UINT64_C(63)

static struct symbol {
    uint64_t address;
    const char *name;
} *symbols;
static size_t count;
static size_t room;

/* Of the variables that each CPU has one of. Since Linux 6.15 they do not begin at 0. */
static uint64_t percpu_begin;
static uint64_t percpu_end;

static bool add(uint64_t address, const char *name)
{
    if (strcmp(name, "__per_cpu_start") == 0) {
        percpu_begin = address;
    } else if (strcmp(name, "__per_cpu_end") == 0) {
        percpu_end = address;
    }
    if (count == room) {
        room = room ? room * 2 : 65536;
        symbols = realloc(symbols, room * sizeof(*symbols));
        if (!symbols) {
            return false;
        }
    }
    symbols[count++] = (struct symbol){ address, name };
    return true;
}

bool ktax_memory_load(const char *path)
{
    return ktax_symbol_file_read(path, add);
}

/* The first of several at the same address. */
static const struct symbol *find(uint64_t address)
{
    size_t low = 0;
    size_t high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (symbols[middle].address <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    while (low > 1 && symbols[low - 2].address == symbols[low - 1].address) {
        low--;
    }
    return low > 0 && address - symbols[low - 1].address < LARGEST_VARIABLE ? &symbols[low - 1]
                                                                            : NULL;
}

static bool name(struct ktax_memory *place, const char *kind, uint64_t address, uint64_t line)
{
    const struct symbol *symbol = find(address);

    if (symbol) {
        place->kind = kind;
        place->symbol = symbol->name;
        place->line_offset = line > symbol->address ? line - symbol->address : 0;
    }
    return symbol != NULL;
}

/* Where Linux has what on x86, with four levels of page tables and with five. */
static const struct area {
    uint64_t begin;
    const char *kind;
    bool is_large; /* its pages have 2 MiB */
} areas[] = {
    { UINT64_C(0xffffffffa0000000), "other", false },
    { UINT64_C(0xffffffff80000000), "other", true },
    { UINT64_C(0xfffffe0000000000), "other", false },
    { UINT64_C(0xffffea0000000000), "pages", true },
    { UINT64_C(0xffffc90000000000), "vmalloc", false },
    { UINT64_C(0xffff888000000000), "direct", true },
    { UINT64_C(0xffff800000000000), "other", false },
    { UINT64_C(0xffd4000000000000), "pages", true },
    { UINT64_C(0xffa0000000000000), "vmalloc", false },
    { UINT64_C(0xff11000000000000), "direct", true },
    { UINT64_C(1) << 63, "other", false },
    { 0, "user", false },
};

static const struct area *area_of(uint64_t address)
{
    const struct area *area = areas;

    while (address < area->begin) {
        area++;
    }
    return area;
}

bool ktax_memory_is_large(uint64_t address)
{
    return area_of(address)->is_large;
}

struct ktax_memory ktax_memory_of(uint64_t address)
{
    struct ktax_memory place = { 0 };

    for (int i = 0; i < ktax_cpu_count; i++) {
        uint64_t own = address - ktax_cpus[i].base;
        if (own >= percpu_begin && own < percpu_end &&
            name(&place, "percpu", own, (address & ~LINE) - ktax_cpus[i].base)) {
            return place;
        }
    }
    if (address >= UINT64_C(0xffffffff80000000) &&
        name(&place, "data", address, address & ~LINE)) {
        return place;
    }
    place.kind = area_of(address)->kind;
    return place;
}

const char *ktax_memory_both(const char *one, const char *other)
{
    bool in_order = strcmp(one, other) < 0;
    size_t size = strlen(one) + strlen(other) + 2;
    char *both = malloc(size);

    if (both) {
        snprintf(both, size, "%s,%s", in_order ? one : other, in_order ? other : one);
    }
    return both ? both : one;
}
