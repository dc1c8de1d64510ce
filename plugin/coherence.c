/* SPDX-License-Identifier: GPL-2.0-or-later */
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
#include "coherence.h"

#include <stdlib.h>

#include "cpus.h"
#include "lines.h"

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

static struct ktax_cpu *scheduled; /* by slices.c, when `executes` was found out */
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
        ktax_lines_add(line, address, slot);
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
    uint64_t at = qemu_plugin_hwaddr_phys_addr(physical);
    uint64_t last = at + (UINT64_C(1) << qemu_plugin_mem_size_shift(info)) - 1;
    access_line(at >> LINE_SHIFT, address, is_store, slot);
    /* Of what crosses into another page only the first line is known. */
    if (last >> LINE_SHIFT != at >> LINE_SHIFT && last >> 12 == at >> 12) {
        access_line(last >> LINE_SHIFT, address + (last - at), is_store, slot);
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
    ktax_lines_clear();
    is_open = true;
}

bool ktax_coherence_end(struct ktax_lines *to)
{
    is_open = false;
    to->transfers = transfers;
    return ktax_lines_take(to);
}
