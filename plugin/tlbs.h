/* SPDX-License-Identifier: GPL-2.0-or-later */
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
#ifndef KTAX_TLBS_H
#define KTAX_TLBS_H

#include <stdbool.h>
#include <stdint.h>

/* One for code and one for data, and behind each another one; that may be the same, or none. */
enum ktax_tlb_kind { TLB_CODE, TLB_DATA, TLB_KINDS };

/* Sizes of a level in sets and ways. Large pages without sets of their own are with the small. */
struct ktax_tlb_size {
    uint32_t sets, ways;
    uint32_t large_sets, large_ways;
};

/* False: there are too many, or there is not enough memory. */
bool ktax_tlb_first(enum ktax_tlb_kind kind, const struct ktax_tlb_size *size);
bool ktax_tlb_second(enum ktax_tlb_kind kind, const struct ktax_tlb_size *size);
bool ktax_tlb_shared(const struct ktax_tlb_size *size);

/* Have both first ones been made? */
bool ktax_tlbs_are_there(void);

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

/* Forgets user space, or everything; or only entries of page tables, which both do. */
void ktax_tlb_forget(bool all);
void ktax_tlb_forget_tables(void);

#endif
