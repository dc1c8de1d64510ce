/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Caches, TLBs, and the events of the model of a machine. */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "counters.h"
#include "cpus.h"
#include "symbols.h"

/* False: there is not enough memory. */
static bool make_cache(struct ktax_cache *cache, uint32_t sets, uint32_t ways)
{
    cache->sets = sets;
    cache->ways = ways;
    cache->lines = calloc((size_t)sets * ways, sizeof(*cache->lines));
    return cache->lines != NULL;
}

bool ktax_cache_search(const struct ktax_cache *cache, uint64_t *set, uint64_t line)
{
    uint64_t carried = set[0];
    bool is_there = false;

    set[0] = line + 1;
    for (uint32_t way = 1; way < cache->ways && !is_there; way++) {
        uint64_t behind = set[way];
        set[way] = carried;
        carried = behind;
        is_there = behind == line + 1;
    }
    return is_there;
}

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

/* False: there are too many, or there is not enough memory. */
static bool make_first_tlb(enum ktax_tlb_kind kind, const struct ktax_tlb_size *size)
{
    levels[0][kind] = new_tlb(size);
    return levels[0][kind] &&
           (structures.entries || make(&structures, STRUCTURES / STRUCTURE_WAYS, STRUCTURE_WAYS));
}

/* False: there are too many, or there is not enough memory. */
static bool make_second_tlb(enum ktax_tlb_kind kind, const struct ktax_tlb_size *size)
{
    levels[1][kind] = new_tlb(size);
    return levels[1][kind] != NULL;
}

/* False: there are too many, or there is not enough memory. */
static bool make_shared_tlb(const struct ktax_tlb_size *size)
{
    levels[1][TLB_CODE] = levels[1][TLB_DATA] = new_tlb(size);
    return levels[1][TLB_CODE] != NULL;
}

/* Have both first ones been made? */
static bool has_tlbs(void)
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

/* Forgets entries of page tables. */
static void forget_tables(void)
{
    ktax_tlb_clocks[CLOCK_TABLES]++;
}

/* Forgets user space, or everything, and entries of page tables. */
static void forget_translations(bool all)
{
    ktax_tlb_clocks[CLOCK_USER]++;
    ktax_tlb_clocks[CLOCK_KERNEL] += all;
    forget_tables();
}

/*
 * Accesses. To ask QEMU for the physical address of each access would cost more than the model. So
 * the physical addresses of the last pages are remembered, until an instruction may have given an
 * address other memory.
 *
 * Most accesses use what was used last of its sets, of the first cache and of the first level of
 * translation. Then nothing changes, and two comparisons are all.
 */

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
        forget_tables();
    } else {
        forget_translations(what == FORGETS_ALL || is_isolated);
    }
}

static void watch_line(struct qemu_plugin_insn *insn, struct ktax_address place, int slot)
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
    struct ktax_address place = ktax_address_of(insn);
    struct ktax_address last =
        ktax_address_behind(&place, (int64_t)qemu_plugin_insn_size(insn) - 1);

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

/* Reads which machine is modelled: docs/wire.md. */

enum { MOST_WAYS = 64, MOST_SETS = 1 << 20, MOST_TLB_SETS = 1 << 12 };

bool ktax_machine;

static bool is_size(uint32_t sets, uint32_t ways, uint32_t most)
{
    return sets > 0 && sets <= most && (sets & (sets - 1)) == 0 && ways > 0 &&
           ways <= MOST_WAYS;
}

static bool read_cache(const char *name, const uint32_t *numbers)
{
    static const char *const names[CACHE_COUNT] = { "l1i", "l1d", "l2", "llc" };

    for (int i = 0; i < CACHE_COUNT; i++) {
        if (strcmp(name, names[i]) == 0 && !ktax_caches[i].sets &&
            is_size(numbers[0], numbers[1], MOST_SETS)) {
            return make_cache(&ktax_caches[i], numbers[0], numbers[1]);
        }
    }
    return false;
}

static bool read_tlb(const char *name, const uint32_t *numbers)
{
    struct ktax_tlb_size size = { numbers[0], numbers[1], numbers[2], numbers[3] };

    if (!is_size(size.sets, size.ways, MOST_TLB_SETS) ||
        (size.large_sets && !is_size(size.large_sets, size.large_ways, MOST_TLB_SETS))) {
        return false;
    }
    if (strcmp(name, "itlb") == 0 || strcmp(name, "dtlb") == 0) {
        return make_first_tlb(name[0] == 'i' ? TLB_CODE : TLB_DATA, &size);
    }
    if (strcmp(name, "itlb2") == 0 || strcmp(name, "dtlb2") == 0) {
        return make_second_tlb(name[0] == 'i' ? TLB_CODE : TLB_DATA, &size);
    }
    return strcmp(name, "stlb") == 0 && make_shared_tlb(&size);
}

static bool read_branches(const uint32_t *numbers)
{
    struct ktax_branches_size size = { numbers[0], numbers[1], numbers[2] };

    return size.history <= size.table && size.table <= MOST_TABLE && size.returns > 0 &&
           size.returns <= MOST_RETURNS && ktax_branches_make(&size);
}

static bool read_line(const char *line)
{
    char name[16];
    uint32_t numbers[4];
    int found = sscanf(line, "%15s %u %u %u %u", name, &numbers[0], &numbers[1], &numbers[2],
                       &numbers[3]);

    if (found == 4 && strcmp(name, "branches") == 0) {
        return read_branches(numbers);
    }
    return (found == 3 && read_cache(name, numbers)) || (found == 5 && read_tlb(name, numbers));
}

bool ktax_machine_load(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[128];
    bool is_good = file != NULL;

    while (is_good && fgets(line, sizeof(line), file)) {
        is_good = read_line(line);
    }
    if (file) {
        fclose(file);
    }
    for (int i = 0; i < CACHE_LAST; i++) {
        is_good = is_good && ktax_caches[i].sets;
    }
    ktax_machine = is_good && has_tlbs() && ktax_branches_are_there();
    if (ktax_machine) {
        ktax_columns = COLUMN_COUNT;
    } else {
        fprintf(stderr, "ktax plugin: cannot model the machine of %s; give a file as docs/wire.md "
                        "has it, and memory\n", path);
    }
    return ktax_machine;
}
