/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two generations of QEMU: API 1 adds to any address, API 2 and later to a scoreboard, of which
 * one vCPU uses the first element. Either way the counts end up in one struct that this process
 * reads directly.
 */
#include "counters.h"

#include <string.h>
#include <sys/mman.h>

int qemu_plugin_version = 1;

struct ktax_counters *ktax_counters;
uint64_t ktax_reps[KTAX_SLOTS];
int ktax_slots = SLOT_KERNEL + 1;
bool ktax_slots_full;

static char *fixed; /* for API 1 */
static struct qemu_plugin_scoreboard *board;
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

uint64_t ktax_count_of_user(void)
{
    uint64_t count = 0;

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
    if (board) {
        qemu_plugin_u64 to = { board, offset };
        qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, to,
                                                            n);
    } else {
        qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64,
                                                   fixed + offset, n);
    }
}

void ktax_count_total(struct qemu_plugin_insn *insn, unsigned n)
{
    count_at(insn, offsetof(struct ktax_counters, total), n);
}

void ktax_count_slot(struct qemu_plugin_insn *insn, int slot, unsigned n)
{
    count_at(insn, offsetof(struct ktax_counters, insns) + (size_t)slot * sizeof(uint64_t), n);
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
