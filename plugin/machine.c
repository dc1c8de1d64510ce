/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * To ask QEMU for the physical address of each access would cost more than the model. So those of
 * the last pages are remembered, until an instruction may have given an address other memory.
 *
 * Most accesses use what was used last of its sets, of the first cache and of the first level of
 * translation. Then nothing changes, and two comparisons are all.
 */
#include "machine.h"

#include "branches.h"
#include "calls.h"
#include "code.h"
#include "costly.h"
#include "counters.h"
#include "records.h"
#include "region.h"
#include "tlbs.h"

enum {
    LINE_SHIFT = 6,
    PAGE_SHIFT = 12,
    RECENTS = 1 << 10,
    LONGEST = 16, /* bytes of an access; QEMU has no longer ones */
};

/* A page by its address, and where it is. */
struct recent {
    uint64_t page, physical, since;
    struct ktax_tlb_page tlb;
};

/* Code in one line, of one function. A program that is mapped twice has the first address. */
struct fetch {
    const uint64_t *set; /* of the cache */
    uint64_t line;
    struct ktax_tlb_page tlb;
    uint64_t address;
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
    count(COLUMN_CACHE_REFERENCES, slot);
    if (!ktax_cache_use(last->sets ? last : &ktax_caches[CACHE_SECOND], line)) {
        count(COLUMN_CACHE_MISSES, slot);
    }
}

static void translate(enum ktax_tlb_kind kind, const struct ktax_tlb_page *page, uint64_t address,
                      int slot)
{
    if (ktax_tlb_is_first(page)) {
        return;
    }
    enum ktax_tlb_found found = ktax_tlb_use(kind, page, address, use_second, slot);
    if (found != TLB_HIT) {
        count(kind == TLB_CODE ? COLUMN_ITLB_MISSES : COLUMN_DTLB_MISSES, slot);
    }
    if (found == TLB_WALKED) {
        count(COLUMN_PAGE_WALKS, slot);
    }
}

static __attribute__((noinline)) void fetch_other(const struct fetch *fetch)
{
    translate(TLB_CODE, &fetch->tlb, fetch->address, fetch->slot);
    if (!ktax_cache_use(&ktax_caches[CACHE_CODE], fetch->line)) {
        count(COLUMN_L1I_MISSES, fetch->slot);
        use_second(fetch->line, fetch->slot);
    }
}

static void on_fetch(unsigned int vcpu, void *data)
{
    const struct fetch *fetch = data;

    (void)vcpu;
    if (fetch->set[0] != fetch->line + 1 || !ktax_tlb_is_first(&fetch->tlb)) {
        fetch_other(fetch);
    }
}

static bool is_known(const struct recent *recent, uint64_t address)
{
    return recent->page == address >> PAGE_SHIFT && recent->since == since[address >> 63];
}

static uint64_t within(uint64_t address)
{
    return address % (1 << PAGE_SHIFT);
}

/* False: there is no memory, but perhaps a device. */
static bool find(struct recent *recent, qemu_plugin_meminfo_t info, uint64_t address, int slot)
{
    struct qemu_plugin_hwaddr *found = qemu_plugin_get_hwaddr(info, address);

    if (!found) {
        return false;
    }
    if (qemu_plugin_hwaddr_is_io(found)) {
        ktax_costly_count(COSTLY_MMIO, slot);
        return false;
    }
    uint64_t physical = qemu_plugin_hwaddr_phys_addr(found);
    *recent = (struct recent){
        .page = address >> PAGE_SHIFT,
        .physical = physical - within(address),
        .since = since[address >> 63],
        .tlb = ktax_tlb_page(TLB_DATA, address, physical),
    };
    return true;
}

static void use_data(const struct recent *recent, uint64_t address, int slot)
{
    uint64_t line = (recent->physical + within(address)) >> LINE_SHIFT;

    translate(TLB_DATA, &recent->tlb, address, slot);
    if (!ktax_cache_use(&ktax_caches[CACHE_DATA], line)) {
        count(COLUMN_L1D_MISSES, slot);
        use_second(line, slot);
    }
}

static __attribute__((noinline)) void access_other(struct recent *recent, uint64_t address,
                                                   qemu_plugin_meminfo_t info, int slot)
{
    if (!is_known(recent, address) && !find(recent, info, address, slot)) {
        return;
    }
    uint64_t last = address + (UINT64_C(1) << qemu_plugin_mem_size_shift(info)) - 1;
    ktax_accesses[slot]++;
    use_data(recent, address, slot);
    /* Of what crosses into another page only the first line is known. */
    if (last >> LINE_SHIFT != address >> LINE_SHIFT && last >> PAGE_SHIFT == recent->page) {
        use_data(recent, last, slot);
    }
}

static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    struct recent *recent = &recents[(address >> PAGE_SHIFT) % RECENTS];
    uint64_t line = (recent->physical + within(address)) >> LINE_SHIFT;
    bool is_in_line = address % (1 << LINE_SHIFT) <= (1 << LINE_SHIFT) - LONGEST;
    int slot = (int)(uintptr_t)data;

    (void)vcpu;
    if (is_known(recent, address) && is_in_line && ktax_tlb_is_first(&recent->tlb) &&
        ktax_cache_set(&ktax_caches[CACHE_DATA], line)[0] == line + 1) {
        ktax_accesses[slot]++;
    } else {
        access_other(recent, address, info, slot);
    }
}

void ktax_machine_branch(int slot, bool is_missed)
{
    ktax_branches[slot]++;
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
    struct fetch *fetch = ktax_record(sizeof(*fetch));

    if (fetch) {
        uint64_t physical = place.physical - 1;
        uint64_t line = physical >> LINE_SHIFT;
        *fetch = (struct fetch){
            .set = ktax_cache_set(&ktax_caches[CACHE_CODE], line),
            .line = line,
            .tlb = ktax_tlb_page(TLB_CODE, place.address, physical),
            .address = place.address,
            .slot = slot,
        };
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

const char *ktax_machine_split_failed(void)
{
    return is_full || ktax_branches_full() ? "there is not enough memory for its model" : NULL;
}
