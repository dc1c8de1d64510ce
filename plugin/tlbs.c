/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tlbs.h"

#include <stdlib.h>
#include <string.h>

#include "cpus.h"
#include "memory.h"

#define IS_PAGE (UINT64_C(1) << 63)
#define IS_KERNEL (UINT64_C(1) << 62)
#define IS_LARGE (UINT64_C(1) << 61)
#define OF_TABLES (UINT64_C(1) << 56) /* lines that no memory has */

enum {
    ADDRESS_BITS = 57,
    LEVEL_SHIFT = 52,
    SMALL_SHIFT = 12,
    LARGE_SHIFT = 21,
    LEVELS = 4,
    MOST = 4,
    STRUCTURES = 32, /* entries of page tables above the lowest, that are cached */
    STRUCTURE_WAYS = 4,
};

struct sets {
    uint32_t count, ways;
    struct ktax_tlb_entry *entries; /* of each set the last used first */
};

struct tlb {
    struct sets small, large;
};

static struct tlb tlbs[MOST];
static int tlb_count;
static struct tlb *levels[2][TLB_KINDS];
static struct sets structures;
uint64_t ktax_tlb_clocks[CLOCKS];

static bool make(struct sets *sets, uint32_t count, uint32_t ways)
{
    sets->count = count;
    sets->ways = ways;
    sets->entries = calloc((size_t)count * ways, sizeof(*sets->entries));
    return sets->entries != NULL;
}

/* NULL: there are too many, or there is not enough memory. */
static struct tlb *new_tlb(const struct ktax_tlb_size *size)
{
    struct tlb *tlb = &tlbs[tlb_count];

    if (tlb_count == MOST) {
        return NULL;
    }
    tlb_count++;
    bool is_made = make(&tlb->small, size->sets, size->ways) &&
                   (size->large_sets == 0 ||
                    make(&tlb->large, size->large_sets, size->large_ways));

    return is_made ? tlb : NULL;
}

bool ktax_tlb_first(enum ktax_tlb_kind kind, const struct ktax_tlb_size *size)
{
    levels[0][kind] = new_tlb(size);
    return levels[0][kind] &&
           (structures.entries || make(&structures, STRUCTURES / STRUCTURE_WAYS, STRUCTURE_WAYS));
}

bool ktax_tlb_second(enum ktax_tlb_kind kind, const struct ktax_tlb_size *size)
{
    levels[1][kind] = new_tlb(size);
    return levels[1][kind] != NULL;
}

bool ktax_tlb_shared(const struct ktax_tlb_size *size)
{
    levels[1][TLB_CODE] = levels[1][TLB_DATA] = new_tlb(size);
    return levels[1][TLB_CODE] != NULL;
}

bool ktax_tlbs_are_there(void)
{
    return levels[0][TLB_CODE] && levels[0][TLB_DATA];
}

static struct ktax_tlb_entry *set_of(const struct sets *sets, uint64_t number)
{
    return sets->entries + (number & (sets->count - 1)) * sets->ways;
}

/* Puts an entry first; returns whether it was there. Else it takes the place of a forgotten one. */
static bool use(const struct sets *sets, uint64_t number, struct ktax_tlb_entry wanted)
{
    struct ktax_tlb_entry *set = set_of(sets, number);
    uint32_t place = sets->ways - 1;
    bool is_there = false;

    for (uint32_t way = 0; way < sets->ways; way++) {
        const struct ktax_tlb_entry *entry = &set[way];
        if (entry->page == wanted.page && entry->since == wanted.since) {
            is_there = entry->physical == wanted.physical;
            place = way;
            break;
        }
        if (!ktax_tlb_is_live(entry) && ktax_tlb_is_live(&set[place])) {
            place = way;
        }
    }
    memmove(set + 1, set, place * sizeof(*set));
    set[0] = wanted;
    return is_there;
}

static uint64_t low(uint64_t value, int bits)
{
    return value & ((UINT64_C(1) << bits) - 1);
}

/*
 * Reads the entry of the lowest table, and of those above it what is not cached. A table has eight
 * entries in a line.
 */
static void walk(uint64_t address, bool is_large, bool is_kernel,
                 void (*on_line)(uint64_t line, int slot), int slot)
{
    uint64_t owner = is_kernel ? 0 : ktax_cpu->task->key * UINT64_C(0x9e3779b97f4a7c15) >> 20;

    for (int level = is_large;; level++) {
        uint64_t number = low(address, ADDRESS_BITS) >> (SMALL_SHIFT + 9 * level);
        uint64_t line = low((number >> 3) ^ owner, LEVEL_SHIFT);
        on_line(OF_TABLES | (uint64_t)level << LEVEL_SHIFT | line, slot);
        uint64_t above = number >> 9;
        struct ktax_tlb_entry table = {
            .page = IS_PAGE | (is_kernel ? IS_KERNEL : 0) | (uint64_t)level << LEVEL_SHIFT | above,
            .physical = owner,
            .clock = CLOCK_TABLES,
            .since = ktax_tlb_clocks[CLOCK_TABLES],
        };
        if (level == LEVELS - 1 || use(&structures, above, table)) {
            break; /* CR3 says where the highest table is */
        }
    }
}

static const struct sets *sets_of(const struct tlb *tlb, bool is_large)
{
    return is_large && tlb->large.count ? &tlb->large : &tlb->small;
}

static uint64_t number_of(uint64_t address, bool is_large)
{
    return address >> (is_large ? LARGE_SHIFT : SMALL_SHIFT);
}

struct ktax_tlb_page ktax_tlb_page(enum ktax_tlb_kind kind, uint64_t address, uint64_t physical)
{
    bool is_large = ktax_memory_is_large(address);
    uint64_t number = number_of(address, is_large);

    return (struct ktax_tlb_page){
        .first = set_of(sets_of(levels[0][kind], is_large), number),
        .page = IS_PAGE | (address >> 63 ? IS_KERNEL : 0) | (is_large ? IS_LARGE : 0) |
                low(number, ADDRESS_BITS),
        .physical = is_large ? 0 : physical >> SMALL_SHIFT,
    };
}

enum ktax_tlb_found ktax_tlb_use(enum ktax_tlb_kind kind, const struct ktax_tlb_page *page,
                                 uint64_t address, void (*on_line)(uint64_t line, int slot),
                                 int slot)
{
    bool is_kernel = page->page & IS_KERNEL;
    bool is_large = page->page & IS_LARGE;
    enum ktax_tlb_clock clock = is_kernel ? CLOCK_KERNEL : CLOCK_USER;
    struct ktax_tlb_entry wanted = {
        .page = page->page,
        .physical = page->physical,
        .clock = clock,
        .since = ktax_tlb_clocks[clock],
    };
    for (int level = 0; level < 2; level++) {
        const struct tlb *tlb = levels[level][kind];
        if (tlb && use(sets_of(tlb, is_large), number_of(address, is_large), wanted)) {
            return level == 0 ? TLB_HIT : TLB_FOUND_SECOND;
        }
    }
    walk(address, is_large, is_kernel, on_line, slot);
    return TLB_WALKED;
}

void ktax_tlb_forget(bool all)
{
    ktax_tlb_clocks[CLOCK_USER]++;
    ktax_tlb_clocks[CLOCK_KERNEL] += all;
    ktax_tlb_forget_tables();
}

void ktax_tlb_forget_tables(void)
{
    ktax_tlb_clocks[CLOCK_TABLES]++;
}
