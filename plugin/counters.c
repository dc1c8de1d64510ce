/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counting: slots, regions, costly instructions and REP iterations. */
#include "counters.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "calls.h"
#include "cpus.h"

enum {
    LINE = 64,
    PIECE = 2 << 20, /* one large page */
};

void *ktax_record(size_t bytes)
{
    static char *piece;
    static size_t used = PIECE;
    size_t size = (bytes + LINE - 1) & ~(size_t)(LINE - 1);

    if (used + size > PIECE) {
        char *more = aligned_alloc(PIECE, PIECE);
        if (!more) {
            return NULL;
        }
        madvise(more, PIECE, MADV_HUGEPAGE); /* it is slower without, and that is all */
        memset(more, 0, PIECE);
        piece = more;
        used = 0;
    }
    used += size;
    return piece + used - size;
}

/*
 * Two generations of QEMU: API 1 adds to any address, API 2 and later to a scoreboard, of which
 * one vCPU uses the first element. Either way the counts end up in one struct that this process
 * reads directly.
 */

int qemu_plugin_version = 1;

struct ktax_counters *ktax_counters;
uint64_t ktax_reps[KTAX_SLOTS];
uint64_t ktax_reps_total;
uint64_t ktax_accesses[KTAX_SLOTS];
uint64_t ktax_branches[KTAX_SLOTS];
int ktax_slots = SLOT_KERNEL + 1;
bool ktax_slots_full;

static char *fixed; /* for API 1 */
static struct qemu_plugin_scoreboard *board;
/*
 * Several vCPUs count in one place. The scoreboard has one byte for each, and nothing is there: to
 * its beginning the generated code adds a constant index times that size, that of the translator.
 * With another size QEMU scales the constant again at each use (9.0 to 11.1).
 */
static struct qemu_plugin_scoreboard *bytes;
static int user_slots[KTAX_SLOTS] = { SLOT_USER };
static int user_slot_count = 1;
static const char *names[KTAX_SLOTS] = { [SLOT_USER] = "[user]", [SLOT_KERNEL] = "[kernel]" };

/* QEMU reads the version between loading the plugin and installing it. */
__attribute__((constructor)) static void choose_version(void)
{
    qemu_plugin_version = qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu ? 2 : 1;
}

bool ktax_counters_init(void)
{
    if (qemu_plugin_version == 1) {
        /* Low addresses make shorter code. */
        fixed = mmap(NULL, sizeof(*ktax_counters), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
        ktax_counters = (struct ktax_counters *)fixed;
        return qemu_plugin_register_vcpu_insn_exec_inline && ktax_counters != MAP_FAILED;
    }
    if (!ktax_one_cpu()) {
        static struct ktax_counters of_all;
        ktax_counters = &of_all;
        bytes = qemu_plugin_scoreboard_new(1);
        return bytes && qemu_plugin_register_vcpu_tb_exec_cond_cb;
    }
    board = qemu_plugin_scoreboard_new(sizeof(struct ktax_counters));
    return board != NULL;
}

void ktax_counters_start(void)
{
    if (board) {
        ktax_counters = qemu_plugin_scoreboard_find(board, 0);
    }
}

int ktax_slot_of(struct ktax_function *function)
{
    if (!function) {
        return SLOT_KERNEL;
    }
    if (function->slot < 0) {
        if (ktax_slots == KTAX_SLOTS) {
            ktax_slots_full = true;
            return SLOT_KERNEL;
        }
        names[ktax_slots] = function->name;
        function->slot = ktax_slots++;
    }
    return function->slot;
}

int ktax_slot_of_user(const char *name)
{
    char *copy = ktax_slots < KTAX_SLOTS ? strdup(name) : NULL;

    if (!copy) {
        ktax_slots_full = true;
        return SLOT_USER;
    }
    names[ktax_slots] = copy;
    user_slots[user_slot_count++] = ktax_slots;
    return ktax_slots++;
}

uint64_t ktax_total(void)
{
    return ktax_one_cpu() ? ktax_counters->total : ktax_cpus_dispatched();
}

uint64_t ktax_count_of_user(void)
{
    uint64_t count = 0;

    if (!ktax_one_cpu()) {
        return ktax_cpus_user();
    }
    for (int i = 0; i < user_slot_count; i++) {
        count += ktax_counters->insns[user_slots[i]];
    }
    return count;
}

const char *ktax_slot_name(int slot)
{
    return names[slot];
}

static void count_at(struct qemu_plugin_insn *insn, size_t offset, unsigned n)
{
    if (n == 0) {
        return;
    }
    if (board) {
        qemu_plugin_u64 to = { board, offset };
        qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, to,
                                                            n);
    } else {
        qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64,
                                                   fixed + offset, n);
    }
}

static qemu_plugin_u64 board_entry(const uint64_t *address, int translator)
{
    const char *begin = qemu_plugin_scoreboard_find(bytes, 0);

    return (qemu_plugin_u64){ bytes, (size_t)((const char *)address - begin) - (size_t)translator };
}

static void add(struct qemu_plugin_insn *insn, uint64_t *to, unsigned n, int translator)
{
    if (n > 0) {
        qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64,
                                                            board_entry(to, translator), n);
    }
}

void ktax_counters_add_to_block(struct qemu_plugin_tb *tb, uint64_t *to, uint64_t n,
                                int translator)
{
    qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64,
                                                      board_entry(to, translator), n);
}

void ktax_counters_call_from(struct qemu_plugin_tb *tb, qemu_plugin_exec_fn fn, void *data,
                             uint64_t *counter, uint64_t limit, int translator)
{
    qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, fn, QEMU_PLUGIN_CB_R_REGS, QEMU_PLUGIN_COND_GE,
                                              board_entry(counter, translator), limit, data);
}

enum { IN_SLOT = 16, USER = 31, SLOT = 32 };

/* While the index of the translator is not known. */
static void on_count(unsigned int vcpu, void *data)
{
    uint64_t word = (uintptr_t)data;
    unsigned in_total = word & 0xffff;

    (void)vcpu;
    ktax_counters->insns[word >> SLOT] += word >> IN_SLOT & 0x7fff;
    ktax_running.used += in_total;
    ktax_running.user += word >> USER & 1 ? in_total : 0;
}

static void count_by_call(struct qemu_plugin_insn *insn, struct ktax_stretch_count count)
{
    uint64_t word = (uint64_t)count.slot << SLOT | (uint64_t)count.user << USER |
                    (uint64_t)count.in_slot << IN_SLOT | count.in_total;

    qemu_plugin_register_vcpu_insn_exec_cb(insn, on_count, QEMU_PLUGIN_CB_NO_REGS,
                                           (void *)(uintptr_t)word);
}

void ktax_count(struct qemu_plugin_insn *insn, struct ktax_stretch_count count, int translator)
{
    if (!ktax_one_cpu() && translator < 0) {
        count_by_call(insn, count);
    } else if (!ktax_one_cpu()) {
        add(insn, &ktax_counters->insns[count.slot], count.in_slot, translator);
        add(insn, &ktax_running.used, count.in_total, translator);
        add(insn, &ktax_running.user, count.user ? count.in_total : 0, translator);
    } else {
        size_t slot = (size_t)count.slot * sizeof(uint64_t);
        count_at(insn, offsetof(struct ktax_counters, insns) + slot, count.in_slot);
        count_at(insn, offsetof(struct ktax_counters, total), count.in_total);
    }
}

size_t ktax_insn_bytes(const struct qemu_plugin_insn *insn, uint8_t *to, size_t room)
{
    if (qemu_plugin_register_vcpu_insn_exec_cond_cb) {
        return qemu_plugin_insn_data(insn, to, room);
    }
    const void *bytes = (const void *)qemu_plugin_insn_data(insn, NULL, 0);
    size_t size = qemu_plugin_insn_size(insn);
    size = size < room ? size : room;
    memcpy(to, bytes, size);
    return size;
}

/*
 * A site is one kind in a function, of one model-specific register. There are some hundred, and few
 * are met often.
 */

enum { SITES = 16384, TABLE = 2 * SITES };

bool ktax_costly_counted = true;

static struct ktax_costly_site sites[SITES];
static int site_count;
static int table[TABLE]; /* a site, from 1 */
static bool is_full;
static uint64_t pending[KTAX_CPUS][SITES];

static struct ktax_costly_site *find(enum ktax_costly kind, int slot, uint64_t msr)
{
    unsigned i = ((unsigned)slot * COSTLY_COUNT + kind + (unsigned)msr) * 2654435761U % TABLE;

    for (; table[i] != 0; i = (i + 1) % TABLE) {
        struct ktax_costly_site *site = &sites[table[i] - 1];
        if (site->slot == slot && site->kind == (int)kind && site->msr == msr) {
            return site;
        }
    }
    if (site_count == SITES) {
        is_full = true;
        return NULL;
    }
    sites[site_count] = (struct ktax_costly_site){ .slot = slot, .kind = kind, .msr = msr };
    table[i] = ++site_count;
    return &sites[site_count - 1];
}

static void count(struct ktax_costly_site *site)
{
    enum ktax_context context = ktax_context_now();

    if (context == CONTEXT_PENDING) {
        pending[ktax_cpu - ktax_cpus][site - sites]++;
    } else {
        site->counts[context]++;
    }
    if (ktax_paths_followed) {
        ktax_calls_costly(site->kind);
    }
}

/* Before what the instruction does to the context and to where the vCPU is. */
static void on_costly(unsigned int vcpu, void *data)
{
    (void)vcpu;
    count(data);
}

/* ECX has the number of the register. */
static void on_msr(unsigned int vcpu, void *data)
{
    static struct qemu_plugin_register *rcx;
    static bool is_asked;
    struct ktax_costly_site *unknown = data;
    struct ktax_costly_site *site = NULL;
    uint64_t value;

    (void)vcpu;
    if (!is_asked) {
        rcx = ktax_register_find("rcx");
        is_asked = true;
    }
    if (ktax_register_get(rcx, &value)) {
        site = find(unknown->kind, unknown->slot, (uint64_t)(uint32_t)value + 1);
    }
    count(site ? site : unknown);
}

void ktax_costly_count(enum ktax_costly kind, int slot)
{
    struct ktax_costly_site *site = find(kind, slot, 0);

    if (site) {
        count(site);
    }
}

void ktax_costly_watch(struct qemu_plugin_insn *insn, enum ktax_costly kind, int slot)
{
    struct ktax_costly_site *site = find(kind, slot, 0);

    if (!site) {
        return;
    }
    if ((kind == COSTLY_WRMSR || kind == COSTLY_RDMSR) && ktax_registers_are_there()) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_msr, QEMU_PLUGIN_CB_R_REGS, site);
    } else {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_costly, QEMU_PLUGIN_CB_NO_REGS, site);
    }
}

/* Gives what is pending on this vCPU to a context. */
static void settle_costly(enum ktax_context context)
{
    uint64_t *of_cpu = pending[ktax_cpu - ktax_cpus];

    for (int i = 0; i < site_count; i++) {
        sites[i].counts[context] += of_cpu[i];
        of_cpu[i] = 0;
    }
}

/* At the marker that begins a region. */
static void clear_costly(void)
{
    for (int i = 0; i < site_count; i++) {
        memset(sites[i].counts, 0, sizeof(sites[i].counts));
    }
    memset(pending, 0, sizeof(pending));
}

/* Copies all counts; false if there is not enough memory. */
static bool take_costly(struct ktax_region *to)
{
    size_t size = (size_t)site_count * sizeof(*sites);

    to->costly = site_count ? malloc(size) : NULL;
    to->costly_count = to->costly ? site_count : 0;
    if (to->costly) {
        memcpy(to->costly, sites, size);
    }
    return to->costly || site_count == 0;
}

const char *ktax_costly_split_failed(void)
{
    return is_full ? "more than 16384 functions and registers with costly instructions" : NULL;
}

static uint64_t total(void)
{
    return ktax_one_cpu() ? ktax_counters->total : ktax_cpus_total();
}

uint64_t ktax_rep_site(uint64_t address, int slot)
{
    return (uint64_t)slot << 48 | (address & ((UINT64_C(1) << 48) - 1));
}

uint64_t ktax_rep_current(void)
{
    return total() == ktax_cpu->rep_total + 1 ? ktax_cpu->rep_site : 0;
}

void ktax_rep_resume(uint64_t site)
{
    ktax_cpu->rep_site = site;
    ktax_cpu->rep_total = total();
}

static void on_rep(void *data, enum ktax_costly kind)
{
    uint64_t site = (uintptr_t)data;
    int slot = (int)(site >> 48);

    if (ktax_rep_current() == site) {
        ktax_reps[slot]++;
        ktax_reps_total++;
    } else {
        if (kind != COSTLY_NONE && ktax_costly_counted) {
            ktax_costly_count(kind, slot);
        }
        ktax_counters->insns[slot]++;
    }
    ktax_rep_resume(site);
}

/* QEMU gives a callback one word, which the site fills: each kind has a callback of its own. */
#define ON(kind)                                               \
    static void on_##kind(unsigned int vcpu, void *data)       \
    {                                                          \
        (void)vcpu;                                            \
        on_rep(data, COSTLY_##kind);                           \
    }

ON(NONE)
ON(REP_STOSB)
ON(REP_STOS)
ON(REP_MOVSB)
ON(REP_MOVS)

qemu_plugin_exec_fn ktax_rep_callback(enum ktax_costly kind)
{
    switch (kind) {
    case COSTLY_REP_STOSB:
        return on_REP_STOSB;
    case COSTLY_REP_STOS:
        return on_REP_STOS;
    case COSTLY_REP_MOVSB:
        return on_REP_MOVSB;
    case COSTLY_REP_MOVS:
        return on_REP_MOVS;
    default:
        return on_NONE;
    }
}

/*
 * The generated code adds at fixed addresses and knows no contexts. So at each change of context,
 * the counts since the last change are added to the bucket of the context that ends. That is a pass
 * over the slots in use, some thousand of them, twice for an interrupt.
 */

struct bucket {
    uint64_t counts[COLUMN_COUNT][KTAX_SLOTS];
};

struct ktax_region ktax_regions[KTAX_REGIONS];
int ktax_region_count;
int ktax_columns = COLUMN_MODEL;
bool ktax_regions_full;

static struct bucket buckets[CONTEXT_COUNT + KTAX_CPUS]; /* and CONTEXT_PENDING of each vCPU */
static uint64_t seen_insns[KTAX_SLOTS]; /* the running counts at the last flush */
static uint64_t seen_reps[KTAX_SLOTS];
static uint64_t seen_accesses[KTAX_SLOTS];
static uint64_t seen_branches[KTAX_SLOTS];
static uint64_t total_at_begin;
static bool is_open;

static void move(uint64_t *to, uint64_t *from, const uint64_t *now)
{
    for (int i = 0; i < ktax_slots; i++) {
        to[i] += now[i] - from[i];
        from[i] = now[i];
    }
}

static struct bucket *bucket_of(enum ktax_context context)
{
    return &buckets[context == CONTEXT_PENDING ? context + (ktax_cpu - ktax_cpus) : context];
}

void ktax_flush(enum ktax_context context)
{
    struct bucket *to = bucket_of(context);

    if (is_open) {
        move(to->counts[COLUMN_INSTRUCTIONS], seen_insns, ktax_counters->insns);
        move(to->counts[COLUMN_REP_ITERATIONS], seen_reps, ktax_reps);
    }
    if (is_open && ktax_columns > COLUMN_MODEL) {
        move(to->counts[COLUMN_L1D_ACCESSES], seen_accesses, ktax_accesses);
        move(to->counts[COLUMN_BRANCHES], seen_branches, ktax_branches);
    }
}

void ktax_region_add(enum ktax_column column, enum ktax_context context, int slot, uint64_t n)
{
    if (is_open) {
        bucket_of(context)->counts[column][slot] += n;
    }
}

void ktax_settle(enum ktax_context context)
{
    struct bucket *pending = bucket_of(CONTEXT_PENDING);

    for (int column = 0; is_open && column < ktax_columns; column++) {
        for (int i = 0; i < ktax_slots; i++) {
            buckets[context].counts[column][i] += pending->counts[column][i];
            pending->counts[column][i] = 0;
        }
    }
    settle_costly(context);
}

void ktax_region_begin(void)
{
    size_t size = (size_t)ktax_slots * sizeof(uint64_t);

    for (int i = 0; i < CONTEXT_COUNT + ktax_cpu_count; i++) {
        for (int column = 0; column < ktax_columns; column++) {
            memset(buckets[i].counts[column], 0, size);
        }
    }
    memcpy(seen_insns, ktax_counters->insns, size);
    memcpy(seen_reps, ktax_reps, size);
    memcpy(seen_accesses, ktax_accesses, size);
    memcpy(seen_branches, ktax_branches, size);
    ktax_coherence_begin();
    clear_costly();
    total_at_begin = ktax_total();
    is_open = true;
}

static bool keep_column(struct ktax_region *region, int column)
{
    size_t slots = (size_t)ktax_slots;
    uint64_t *to = malloc(slots * sizeof(uint64_t) * CONTEXT_COUNT);

    for (size_t i = 0; to && i < CONTEXT_COUNT; i++) {
        memcpy(to + i * slots, buckets[i].counts[column], slots * sizeof(uint64_t));
    }
    region->counts[column] = to;
    return to != NULL;
}

static bool keep(struct ktax_region *region, const struct ktax_parallel *parallel)
{
    region->total = ktax_total() - total_at_begin;
    region->slots = ktax_slots;
    region->parallel = *parallel;
    for (int column = 0; column < ktax_columns; column++) {
        if (!keep_column(region, column)) {
            return false;
        }
    }
    if (!ktax_coherence_end(&region->lines) || !ktax_paths_take(region) ||
        !take_costly(region)) {
        return false;
    }
    return true;
}

void ktax_region_end(const struct ktax_parallel *parallel)
{
    if (!is_open) {
        return;
    }
    is_open = false;
    if (ktax_region_count == KTAX_REGIONS || !keep(&ktax_regions[ktax_region_count], parallel)) {
        ktax_regions_full = true;
        return;
    }
    ktax_region_count++;
}
