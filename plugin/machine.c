/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * To ask QEMU for the physical address of each access would cost more than the model. So those of
 * the last pages are remembered, until an instruction may have given an address other memory.
 */
#include "machine.h"

#include <stdlib.h>

#include "branches.h"
#include "calls.h"
#include "code.h"
#include "costly.h"
#include "region.h"
#include "tlbs.h"

enum {
    LINE_SHIFT = 6,
    PAGE_SHIFT = 12,
    RECENTS = 1 << 10,
};

/* A page by its address, and where it is. */
struct recent {
    uint64_t page, physical, since;
};

/* Code in one line, of one function. A program that is mapped twice has the first address. */
struct fetch {
    struct ktax_place place;
    int slot;
};

struct ktax_cache ktax_caches[CACHE_COUNT];

static struct recent recents[RECENTS];
static uint64_t since[2] = { 1, 1 }; /* of user space, of the kernel: older ones are forgotten */
static bool is_full;

static void count(enum ktax_column event, int slot)
{
    ktax_region_add(event, ktax_context_now(), slot, 1);
}

/* A line that neither of the first caches has. */
static void use_second(uint64_t line, int slot)
{
    const struct ktax_cache *last = &ktax_caches[CACHE_LAST];

    if (last->sets && ktax_cache_use(&ktax_caches[CACHE_SECOND], line)) {
        return;
    }
    count(COLUMN_REFERENCES, slot);
    if (!ktax_cache_use(last->sets ? last : &ktax_caches[CACHE_SECOND], line)) {
        count(COLUMN_MISSES, slot);
    }
}

static void translate(enum ktax_tlb_kind kind, uint64_t address, uint64_t physical, int slot)
{
    enum ktax_tlb_found found = ktax_tlb_use(kind, address, physical, use_second, slot);

    if (found != TLB_HIT) {
        count(kind == TLB_CODE ? COLUMN_ITLB_MISSES : COLUMN_DTLB_MISSES, slot);
    }
    if (found == TLB_WALKED) {
        count(COLUMN_PAGE_WALKS, slot);
    }
}

static void on_fetch(unsigned int vcpu, void *data)
{
    const struct fetch *fetch = data;
    uint64_t physical = fetch->place.physical - 1;

    (void)vcpu;
    translate(TLB_CODE, fetch->place.address, physical, fetch->slot);
    if (!ktax_cache_use(&ktax_caches[CACHE_CODE], physical >> LINE_SHIFT)) {
        count(COLUMN_L1I_MISSES, fetch->slot);
        use_second(physical >> LINE_SHIFT, fetch->slot);
    }
}

static void use_data(uint64_t address, uint64_t physical, int slot)
{
    translate(TLB_DATA, address, physical, slot);
    if (!ktax_cache_use(&ktax_caches[CACHE_DATA], physical >> LINE_SHIFT)) {
        count(COLUMN_L1D_MISSES, slot);
        use_second(physical >> LINE_SHIFT, slot);
    }
}

static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    int slot = (int)(uintptr_t)data;
    bool is_kernel = address >> 63;
    uint64_t page = address >> PAGE_SHIFT;
    uint64_t within = address % (1 << PAGE_SHIFT);
    struct recent *recent = &recents[page % RECENTS];

    (void)vcpu;
    if (recent->page != page || recent->since != since[is_kernel]) {
        struct qemu_plugin_hwaddr *found = qemu_plugin_get_hwaddr(info, address);
        if (!found) {
            return;
        }
        if (qemu_plugin_hwaddr_is_io(found)) {
            ktax_costly_count(COSTLY_MMIO, slot);
            return;
        }
        uint64_t physical = qemu_plugin_hwaddr_phys_addr(found) - within;
        *recent = (struct recent){ page, physical, since[is_kernel] };
    }
    uint64_t last = within + (UINT64_C(1) << qemu_plugin_mem_size_shift(info)) - 1;
    count(COLUMN_L1D_ACCESSES, slot);
    use_data(address, recent->physical + within, slot);
    /* Of what crosses into another page only the first line is known. */
    if (last >> LINE_SHIFT != within >> LINE_SHIFT && last >> PAGE_SHIFT == 0) {
        use_data(address - within + last, recent->physical + last, slot);
    }
}

void ktax_machine_branch(int slot, bool is_missed)
{
    count(COLUMN_BRANCHES, slot);
    if (is_missed) {
        count(COLUMN_BRANCH_MISSES, slot);
    }
}

/* Once the kernel isolates page tables its own pages are known no longer than those of others. */
static void on_forget(unsigned int vcpu, void *data)
{
    static bool is_isolated;
    enum ktax_forgets what = (enum ktax_forgets)(uintptr_t)data;

    (void)vcpu;
    is_isolated = is_isolated || what == FORGETS_BY_ENTRY;
    since[0]++;
    since[1] += what != FORGETS_USER;
    if (what == FORGETS_ADDRESSES) {
        ktax_tlb_forget_tables();
    } else {
        ktax_tlb_forget(what == FORGETS_ALL || is_isolated);
    }
}

static void watch_line(struct qemu_plugin_insn *insn, struct ktax_place place, int slot)
{
    struct fetch *fetch = malloc(sizeof(*fetch));

    if (fetch) {
        *fetch = (struct fetch){ place, slot };
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_fetch, QEMU_PLUGIN_CB_NO_REGS, fetch);
    } else {
        is_full = true;
    }
}

void ktax_machine_watch(struct qemu_plugin_insn *insn, bool is_first, int slot,
                        enum ktax_forgets forgets)
{
    struct ktax_place place = ktax_place_of(insn);
    struct ktax_place last = ktax_place_behind(&place, (int64_t)qemu_plugin_insn_size(insn) - 1);

    if (is_first || place.address % (1 << LINE_SHIFT) == 0) {
        watch_line(insn, place, slot);
    }
    /* Of what crosses into another page only the first line is known. */
    if (last.physical && last.address >> LINE_SHIFT != place.address >> LINE_SHIFT) {
        watch_line(insn, last, slot);
    }
    qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                     (void *)(uintptr_t)slot);
    if (forgets != FORGETS_NOTHING) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_forget, QEMU_PLUGIN_CB_NO_REGS,
                                               (void *)(uintptr_t)forgets);
    }
}

const char *ktax_machine_event(int column)
{
    static const char *const names[] = {
        "model-l1i-misses", "model-l1d-accesses", "model-l1d-misses", "model-cache-references",
        "model-cache-misses", "model-itlb-misses", "model-dtlb-misses", "model-page-walks",
        "model-branches", "model-branch-misses",
    };

    return names[column - COLUMN_MODEL];
}

const char *ktax_machine_split_failed(void)
{
    return is_full || ktax_branches_full() ? "there is not enough memory for its model" : NULL;
}
