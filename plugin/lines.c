/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A line of the kernel's variables has the name of the variable that is used, or of both if there
 * are more: which of them share a line is what one wants to know. Other memory has no names. There
 * a line has that of the function that gets it most often from another CPU.
 */
#include "lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "cpus.h"
#include "memory.h"

struct transfer {
    uint64_t line; /* and 1, so that 0 is free */
    uint64_t address;
    uint64_t count;
    int slot;
};

static struct transfer *table;
static size_t room; /* a power of two */
static size_t used;
static bool is_full;

static size_t index_of(uint64_t line, int slot)
{
    uint64_t hash = (line * 31 + (uint64_t)slot) * UINT64_C(0x9e3779b97f4a7c15);

    return hash >> 20 & (room - 1);
}

static struct transfer *find(uint64_t line, int slot)
{
    size_t i = index_of(line, slot);

    while (table[i].line != 0 && !(table[i].line == line && table[i].slot == slot)) {
        i = (i + 1) & (room - 1);
    }
    return &table[i];
}

static bool grow(void)
{
    struct transfer *old = table;
    size_t count = room;

    room = room ? room * 2 : 1 << 14;
    table = calloc(room, sizeof(*table));
    if (!table) {
        table = old;
        room = count;
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (old[i].line != 0) {
            *find(old[i].line, old[i].slot) = old[i];
        }
    }
    free(old);
    return true;
}

void ktax_lines_add(uint64_t line, uint64_t address, int slot)
{
    if (used * 2 >= room && !grow()) {
        is_full = true;
        return;
    }
    struct transfer *it = find(line + 1, slot);
    if (it->line == 0) {
        *it = (struct transfer){ .line = line + 1, .address = address, .slot = slot };
        used++;
    }
    it->count++;
}

void ktax_lines_clear(void)
{
    if (table) {
        memset(table, 0, room * sizeof(*table));
    }
    used = 0;
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* By line, and in a line the most frequent first. */
static int by_line(const void *a, const void *b)
{
    const struct transfer *one = a;
    const struct transfer *other = b;
    int order = compare(one->line, other->line);

    order = order ? order : compare(other->count, one->count);
    return order ? order : strcmp(ktax_slot_name(one->slot), ktax_slot_name(other->slot));
}

static int by_name(const void *a, const void *b)
{
    const struct ktax_line *one = a;
    const struct ktax_line *other = b;
    int order = strcmp(one->kind, other->kind);

    order = order ? order : strcmp(one->name, other->name);
    return order ? order : compare(one->offset, other->offset);
}

static int by_count(const void *a, const void *b)
{
    int order = compare(((const struct ktax_line *)b)->count, ((const struct ktax_line *)a)->count);

    return order ? order : by_name(a, b);
}

/* `all` are of one line. */
static struct ktax_line name(const struct transfer *all, size_t count)
{
    struct ktax_memory first = ktax_memory_of(all[0].address);
    struct ktax_line line = { .kind = first.kind, .name = first.symbol, .lines = 1 };
    struct ktax_memory other = first;

    for (size_t i = 0; i < count; i++) {
        struct ktax_memory place = ktax_memory_of(all[i].address);
        line.count += all[i].count;
        if (place.symbol && first.symbol && other.symbol == first.symbol) {
            other = place;
        }
    }
    if (!first.symbol) {
        line.name = ktax_slot_name(all[0].slot);
    } else if (other.symbol != first.symbol) {
        line.name = ktax_memory_both(first.symbol, other.symbol);
    } else {
        line.offset = first.line_offset;
    }
    return line;
}

/* Sorts, and adds up lines of the same name. */
static size_t merge(struct ktax_line *lines, size_t count)
{
    size_t merged = 0;

    qsort(lines, count, sizeof(*lines), by_name);
    for (size_t i = 0; i < count; i++) {
        if (merged > 0 && by_name(&lines[merged - 1], &lines[i]) == 0) {
            lines[merged - 1].count += lines[i].count;
            lines[merged - 1].lines += lines[i].lines;
        } else {
            lines[merged++] = lines[i];
        }
    }
    qsort(lines, merged, sizeof(*lines), by_count);
    return merged;
}

bool ktax_lines_take(struct ktax_lines *to)
{
    struct transfer *all = malloc((used + 1) * sizeof(*all));
    size_t count = 0;
    size_t end;

    to->lines = malloc((used + 1) * sizeof(*to->lines));
    to->count = 0;
    if (!all || !to->lines || is_full) {
        free(all);
        return false;
    }
    for (size_t i = 0; i < room; i++) {
        if (table[i].line != 0) {
            all[count++] = table[i];
        }
    }
    qsort(all, count, sizeof(*all), by_line);
    for (size_t i = 0; i < count; i = end) {
        for (end = i; end < count && all[end].line == all[i].line; end++) {
        }
        to->lines[to->count++] = name(all + i, end - i);
    }
    free(all);
    to->count = merge(to->lines, to->count);
    return true;
}
