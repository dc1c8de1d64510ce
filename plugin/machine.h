/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A model of a machine: caches, translation of addresses, prediction of branches. */
#ifndef KTAX_MACHINE_H
#define KTAX_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "cpus.h"
#include "qemu_api.h"

/* Where code is in the guest's memory. */
struct ktax_address {
    uint64_t address;
    uint64_t physical; /* from 1; 0: not known, as of what is on another page */
};

struct ktax_address ktax_address_of(const struct qemu_plugin_insn *insn);

/* So many bytes behind it. */
struct ktax_address ktax_address_behind(const struct ktax_address *place, int64_t bytes);

static inline bool ktax_is_same_address(const struct ktax_address *one,
                                        const struct ktax_address *other)
{
    return one->physical && other->physical ? one->physical == other->physical
                                            : one->address == other->address;
}

/* A cache of lines by sets, of which each forgets the line that was used least recently. */

struct ktax_cache {
    uint64_t sets; /* a power of two; 0: there is no such cache */
    uint32_t ways;
    uint64_t *lines; /* of each set the last used first; 0: none */
};

/* The same of a line that was not the last used one of its set. */
bool ktax_cache_search(const struct ktax_cache *cache, uint64_t *set, uint64_t line);

static inline uint64_t *ktax_cache_set(const struct ktax_cache *cache, uint64_t line)
{
    return cache->lines + (line & (cache->sets - 1)) * cache->ways;
}

/* Uses a line. Was it there? It is now. */
static inline bool ktax_cache_use(const struct ktax_cache *cache, uint64_t line)
{
    uint64_t *set = ktax_cache_set(cache, line);

    return set[0] == line + 1 || ktax_cache_search(cache, set, line);
}

/*
 * The model's translation of addresses: two levels of buffers, and walks of page tables. QEMU shows
 * neither its own walks nor the size of a page. So a walk uses lines that no memory has, which are
 * other ones in each task, and the size of a page follows from where it is: the kernel's code, its
 * variables, its map of all memory and its descriptions of pages have pages of 2 MiB, everything
 * else of 4 KiB. A fifth level of page tables is not walked.
 *
 * A load of CR3 forgets user space; where the kernel loads it in its entry code, which isolates
 * page tables, everything. After an instruction that invalidates one page the model finds out
 * whether an address has other memory now: nothing says which page it was.
 */

/* One for code and one for data, and behind each another one; that may be the same, or none. */
enum ktax_tlb_kind { TLB_CODE, TLB_DATA, TLB_KINDS };

/* Sizes of a level in sets and ways. Large pages without sets of their own are with the small. */
struct ktax_tlb_size {
    uint32_t sets, ways;
    uint32_t large_sets, large_ways;
};

/* What a use found. */
enum ktax_tlb_found { TLB_HIT, TLB_FOUND_SECOND, TLB_WALKED };

/* What is forgotten together, and how often it was. */
enum ktax_tlb_clock { CLOCK_USER, CLOCK_KERNEL, CLOCK_TABLES, CLOCKS };
extern uint64_t ktax_tlb_clocks[CLOCKS];

struct ktax_tlb_entry {
    uint64_t page;     /* with bits of its own for what it is; 0: none */
    uint64_t physical;
    enum ktax_tlb_clock clock;
    uint64_t since;    /* its clock when it was used */
};

/* A page, and the entry of its set that was used last. */
struct ktax_tlb_page {
    const struct ktax_tlb_entry *first;
    uint64_t page, physical; /* as in its entry */
};

/* The page of an address whose physical one is known. */
struct ktax_tlb_page ktax_tlb_page(enum ktax_tlb_kind kind, uint64_t address, uint64_t physical);

static inline bool ktax_tlb_is_live(const struct ktax_tlb_entry *entry)
{
    return entry->page != 0 && entry->since == ktax_tlb_clocks[entry->clock];
}

/* Was the page used last of its set? To use it then changes nothing. */
static inline bool ktax_tlb_is_first(const struct ktax_tlb_page *page)
{
    return page->first->page == page->page && page->first->physical == page->physical &&
           ktax_tlb_is_live(page->first);
}

/*
 * Uses the translation of an address of the page. Where it walks it calls for each line that the
 * walk reads.
 */
enum ktax_tlb_found ktax_tlb_use(enum ktax_tlb_kind kind, const struct ktax_tlb_page *page,
                                 uint64_t address, void (*on_line)(uint64_t line, int slot),
                                 int slot);

/*
 * The model's prediction of branches. Whether a conditional branch is taken is predicted by its
 * address and the last ones (gshare, counters of two bits); where an indirect one goes, by the
 * same; where a return goes, by a stack of the last calls. A jump or call whose target is in its
 * bytes is always predicted. Of how real predictors work makers say little: these are textbook
 * ones.
 */

struct ktax_branches_size {
    uint32_t history; /* how many branches are remembered */
    uint32_t table;   /* two to this power counters, and as many targets */
    uint32_t returns; /* calls that are remembered */
};

enum { MOST_RETURNS = 64, MOST_TABLE = 24 };

/* False: there is not enough memory. */
bool ktax_branches_make(const struct ktax_branches_size *size);

bool ktax_branches_are_there(void);

/* Is something missing, since there was not enough memory? */
bool ktax_branches_full(void);

/* Looks where the branch at the end of a block goes: its last instruction, of that slot. */
void ktax_branches_watch(struct qemu_plugin_tb *tb, const struct qemu_plugin_insn *end, int slot);

/* In machine.c: a branch of that slot was executed. */
void ktax_machine_branch(int slot, bool is_missed);

/*
 * A model of a machine: caches, translation of addresses, prediction of branches. It counts what
 * such a machine might wait for, by function and context. No time follows from it.
 *
 * Code and data go through caches of their own, what misses there through the second one, and then
 * through the last one if there is a third. Lines have 64 bytes and physical addresses, and a store
 * uses a line as a load does. Not modelled are prefetching, writing back, and what is speculative.
 */

/* Whether the model was asked for. */
extern bool ktax_machine;

/* Reads the file of docs/wire.md. On failure prints what to do and returns false. */
bool ktax_machine_load(const char *path);

/* Of code, of data, behind both, and behind that if there are three levels. */
enum { CACHE_CODE, CACHE_DATA, CACHE_SECOND, CACHE_LAST, CACHE_COUNT };
extern struct ktax_cache ktax_caches[CACHE_COUNT];

/* What the CPU forgets at an instruction, or may find elsewhere from then on. */
enum ktax_forgets {
    FORGETS_NOTHING,
    FORGETS_ADDRESSES, /* where one page is */
    FORGETS_USER,      /* user space */
    FORGETS_BY_ENTRY,  /* all, at a load of CR3 by which the kernel isolates page tables */
    FORGETS_ALL,
};

/* Calls for the lines of an instruction's code, and for each access of it. */
void ktax_machine_watch(struct qemu_plugin_insn *insn, bool is_first, int slot,
                        enum ktax_forgets forgets);

/* Why not all could be modelled, or NULL. */
const char *ktax_machine_split_failed(void);

#endif
