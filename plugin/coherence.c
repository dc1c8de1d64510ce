/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The model of coherence: which lines travel between CPUs, and what they are called. */
#include "coherence.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "cpus.h"
#include "symbols.h"

/*
 * A line of the kernel's variables has the name of the variable that is used, or of both if there
 * are more: which of them share a line is what one wants to know. Other memory has no names. There
 * a line has that of the function that gets it most often from another CPU.
 */

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

/* One transfer of a line, by an instruction of that slot that used that address. */
static void add_transfer(uint64_t line, uint64_t address, int slot)
{
    if (used * 2 >= room && !grow()) {
        is_full = true;
        return;
    }
    struct transfer *found = find(line + 1, slot);
    if (found->line == 0) {
        *found = (struct transfer){ .line = line + 1, .address = address, .slot = slot };
        used++;
    }
    found->count++;
}

static void clear_transfers(void)
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

/* The lines by name, those that travel most first. False: there is not enough memory. */
static bool take_lines(struct ktax_lines *to)
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

/*
 * Who executes is known exactly where the plugin ends slices. Where QEMU ends one, before a timer
 * is due, it is known only when the context changes. Until then the next vCPU would be taken for
 * the last one, and each line would seem to travel. But nearly every block uses a stack, which no
 * two CPUs share, and so misses at once; and before a miss changes anything, the register that
 * tells who executes is read.
 *
 * Most accesses are to lines that the CPU has just used. While its slice lasts nobody takes them
 * away, so these need neither a physical address nor the directory. Only the kernel's addresses are
 * remembered: each CPU has the same.
 */

enum {
    LINE_SHIFT = 6,
    CHUNK_SHIFT = 21, /* 2 MiB of memory, whose lines are 32768 */
    CHUNKS = 1 << 16, /* 128 GiB */
    LINES = 1 << (CHUNK_SHIFT - LINE_SHIFT),
    RECENTS = 1 << 8,
    LARGEST = 16, /* bytes of an access */
};

/* A line by its address, that the CPU which executes has. */
struct recent {
    uint64_t line;
    uint64_t since;
    bool is_stored; /* and nobody else has it */
};

struct entry {
    uint32_t holders; /* a bit for each CPU */
    uint32_t writer;  /* who wrote it last, from 1; 0: nobody */
};

bool ktax_coherence;

static struct entry *chunks[CHUNKS];
static uint64_t transfers;
static bool is_open;

static struct ktax_cpu *scheduled; /* by the slices, when `executes` was found out */
static struct ktax_cpu *executes;

static struct recent recents[RECENTS];
static uint64_t since = 1; /* older ones are forgotten */

static struct entry *entry_of(uint64_t line)
{
    uint64_t chunk = line >> (CHUNK_SHIFT - LINE_SHIFT);

    if (chunk >= CHUNKS) {
        return NULL;
    }
    if (!chunks[chunk]) {
        chunks[chunk] = calloc(LINES, sizeof(struct entry));
    }
    return chunks[chunk] ? &chunks[chunk][line % LINES] : NULL;
}

static uint32_t bit_of(const struct ktax_cpu *cpu)
{
    return UINT32_C(1) << (cpu - ktax_cpus);
}

static bool is_hit(const struct entry *entry, uint32_t own, bool is_store)
{
    return is_store ? entry->holders == own : entry->holders & own;
}

/* Not a hit, for whoever was last known to execute. */
static void miss(struct entry *entry, uint64_t line, uint64_t address, bool is_store, int slot)
{
    struct ktax_cpu *cpu = ktax_cpus_read();

    if (cpu && cpu != executes) {
        executes = cpu;
        since++;
    }
    uint32_t own = bit_of(executes);
    if (!(entry->holders & own) && entry->writer != 0 && is_open) {
        transfers++;
        ktax_context_transfer(slot);
        add_transfer(line, address, slot);
    }
    entry->holders = is_store ? own : entry->holders | own;
    if (is_store) {
        entry->writer = (uint32_t)(executes - ktax_cpus) + 1;
    }
}

static void access_line(uint64_t line, uint64_t address, bool is_store, int slot)
{
    struct entry *entry = entry_of(line);

    if (!entry) {
        return;
    }
    if (is_hit(entry, bit_of(executes), is_store)) {
        /* Whoever holds it alone may have only read it. */
        entry->writer = is_store ? (uint32_t)(executes - ktax_cpus) + 1 : entry->writer;
    } else {
        miss(entry, line, address, is_store, slot);
    }
}

static void access_memory(qemu_plugin_meminfo_t info, uint64_t address, bool is_store, int slot)
{
    struct qemu_plugin_hwaddr *physical = qemu_plugin_get_hwaddr(info, address);

    if (!physical || qemu_plugin_hwaddr_is_io(physical)) {
        return;
    }
    uint64_t first = qemu_plugin_hwaddr_phys_addr(physical);
    uint64_t last = first + (UINT64_C(1) << qemu_plugin_mem_size_shift(info)) - 1;
    access_line(first >> LINE_SHIFT, address, is_store, slot);
    /* Of what crosses into another page only the first line is known. */
    if (last >> LINE_SHIFT != first >> LINE_SHIFT && last >> 12 == first >> 12) {
        access_line(last >> LINE_SHIFT, address + (last - first), is_store, slot);
    } else if (address >> 63) {
        uint64_t line = address >> LINE_SHIFT;
        struct recent *recent = &recents[line % RECENTS];
        bool is_same = recent->line == line && recent->since == since;
        bool is_stored = is_store || (is_same && recent->is_stored);
        *recent = (struct recent){ .line = line, .since = since, .is_stored = is_stored };
    }
}

static inline void on_access(qemu_plugin_meminfo_t info, uint64_t address, bool is_store, int slot)
{
    uint64_t line = address >> LINE_SHIFT;
    const struct recent *recent = &recents[line % RECENTS];

    if (ktax_cpu != scheduled) {
        scheduled = executes = ktax_cpu;
        since++;
    }
    bool is_whole = address % (1 << LINE_SHIFT) <= (1 << LINE_SHIFT) - LARGEST;
    if (!(recent->line == line && recent->since == since && is_whole &&
          (recent->is_stored || !is_store))) {
        access_memory(info, address, is_store, slot);
    }
}

static void on_load(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *slot)
{
    (void)vcpu;
    on_access(info, address, false, (int)(uintptr_t)slot);
}

static void on_store(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *slot)
{
    (void)vcpu;
    on_access(info, address, true, (int)(uintptr_t)slot);
}

static void on_remap(unsigned int vcpu, void *data)
{
    (void)vcpu;
    (void)data;
    since++;
}

void ktax_coherence_watch(struct qemu_plugin_insn *insn, int slot, bool remaps)
{
    void *data = (void *)(uintptr_t)slot;

    qemu_plugin_register_vcpu_mem_cb(insn, on_load, QEMU_PLUGIN_CB_R_REGS, QEMU_PLUGIN_MEM_R, data);
    qemu_plugin_register_vcpu_mem_cb(insn, on_store, QEMU_PLUGIN_CB_R_REGS, QEMU_PLUGIN_MEM_W,
                                     data);
    if (remaps) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_remap, QEMU_PLUGIN_CB_NO_REGS, NULL);
    }
}

void ktax_coherence_begin(void)
{
    transfers = 0;
    clear_transfers();
    is_open = true;
}

bool ktax_coherence_end(struct ktax_lines *to)
{
    is_open = false;
    to->transfers = transfers;
    return take_lines(to);
}
