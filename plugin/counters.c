/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two generations of QEMU: API 1 adds to any address, API 2 and later to a scoreboard, of which
 * one vCPU uses the first element. Either way the counts end up in one struct that this process
 * reads directly.
 */
#include "counters.h"

#include <string.h>
#include <sys/mman.h>

#include "cpus.h"

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

static qemu_plugin_u64 at(const uint64_t *address, int translator)
{
    const char *begin = qemu_plugin_scoreboard_find(bytes, 0);

    return (qemu_plugin_u64){ bytes, (size_t)((const char *)address - begin) - (size_t)translator };
}

static void add(struct qemu_plugin_insn *insn, uint64_t *to, unsigned n, int translator)
{
    if (n > 0) {
        qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64,
                                                            at(to, translator), n);
    }
}

void ktax_counters_add_to_block(struct qemu_plugin_tb *tb, uint64_t *to, uint64_t n,
                                int translator)
{
    qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64,
                                                      at(to, translator), n);
}

void ktax_counters_call_from(struct qemu_plugin_tb *tb, qemu_plugin_exec_fn fn, void *data,
                             uint64_t *of, uint64_t limit, int translator)
{
    qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, fn, QEMU_PLUGIN_CB_R_REGS, QEMU_PLUGIN_COND_GE,
                                              at(of, translator), limit, data);
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
