/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ktax's QEMU plugin: counts every guest instruction by function and context between two markers.
 * The contract is docs/wire.md. This file reads the arguments and instruments each block.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "coherence.h"
#include "context.h"
#include "counters.h"
#include "cpus.h"
#include "machine.h"
#include "report.h"
#include "symbols.h"
#include "watch.h"

/*
 * What QEMU gives the plugin: symbols=FILE (optional), out=FILE,
 * region=boot (for a machine that starts with the plugin: counts from start_kernel to init),
 * archive=FILE and functions=FILE (both or none: the user's programs),
 * quantum=N, contended=N, jitter=SEED and limit=N (of several vCPUs), coherence=FILE (the kernel's
 * variables), machine=FILE (a model of one), paths=no (calls are not followed), draw=FILE (for a
 * test of paths).
 */

/* Prints it, and is false. */
static bool refuse(const char *why)
{
    fprintf(stderr, "ktax plugin: %s\n", why);
    return false;
}

/* Of `name=value` the value; NULL of another argument. */
static const char *value_of(const char *argument, const char *name)
{
    size_t length = strlen(name);

    return strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1
                                                                           : NULL;
}

static struct {
    const char *out, *symbols, *archive, *functions, *variables, *machine, *draw;
} files;

static bool read_argument(const char *argument)
{
    const struct { const char *name; const char **file; } named[] = {
        { "out", &files.out }, { "symbols", &files.symbols }, { "archive", &files.archive },
        { "functions", &files.functions }, { "coherence", &files.variables },
        { "machine", &files.machine }, { "draw", &files.draw },
    };
    const struct { const char *name; uint64_t *number; } numbers[] = {
        { "quantum", &ktax_quantum }, { "contended", &ktax_contended_quantum },
        { "jitter", &ktax_jitter }, { "limit", &ktax_deadline },
    };

    for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++) {
        const char *value = value_of(argument, named[i].name);
        if (value) {
            *named[i].file = value;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        const char *value = value_of(argument, numbers[i].name);
        if (value) {
            *numbers[i].number = strtoull(value, NULL, 10);
            return true;
        }
    }
    bool is_boot = strcmp(argument, "region=boot") == 0;
    bool is_pathless = strcmp(argument, "paths=no") == 0;
    bool is_costless = strcmp(argument, "costly=no") == 0;
    ktax_context_of_boot = ktax_context_of_boot || is_boot;
    ktax_paths_followed = ktax_paths_followed && !is_boot && !is_pathless;
    ktax_costly_counted = ktax_costly_counted && !is_costless;
    return is_boot || is_pathless || is_costless;
}

/* False: they are refused, which says why. */
static bool read_arguments(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (!read_argument(argv[i])) {
            return refuse("has an unknown argument; it takes symbols=FILE, out=FILE, "
                               "region=boot, archive=FILE, functions=FILE, quantum=N, "
                               "contended=N, jitter=SEED, limit=N, coherence=FILE, machine=FILE, "
                               "paths=no, costly=no, draw=FILE");
        }
    }
    if (!files.out) {
        return refuse("needs the argument out=FILE, the profile to write");
    }
    if (files.draw && !ktax_draw_open(files.draw)) {
        return refuse("cannot draw; give draw=FILE that is new, and QEMU 10.0 or newer");
    }
    bool has_programs = files.archive && files.functions;
    ktax_coherence = files.variables != NULL;
    return (!has_programs || ktax_user_load(files.archive, files.functions)) &&
           (!files.variables || ktax_memory_load(files.variables)) &&
           (!files.machine || ktax_machine_load(files.machine)) &&
           (!files.symbols || ktax_symbols_load(files.symbols)) && ktax_report_open(files.out);
}

/*
 * Instructions of one block that are dispatched together are counted together, at the first of
 * them. Each but the last surely completes, only the first may have a callback, and all belong to
 * one function.
 */
struct stretch {
    struct qemu_plugin_insn *first;
    struct ktax_stretch_count count;
    bool open; /* may the next instruction join? */
    int translator;
};

static void finish(struct stretch *stretch)
{
    if (stretch->count.in_total > 0) {
        ktax_count(stretch->first, stretch->count, stretch->translator);
    }
    *stretch = (struct stretch){ .translator = stretch->translator };
}

/*
 * QEMU up to 8.1 shows the plugin one instruction too many, with only some of its bytes, if that
 * instruction crosses into the next page: QEMU dispatches it as the first of the next block. An
 * x86 instruction has at most 15 bytes.
 */
static bool may_cross_page(uint64_t address)
{
    return ((address + 14) ^ address) >> 12;
}

static bool is_entry(const struct ktax_insn *insn)
{
    return ktax_symbols_in_entry(insn->address) ||
           (insn->function && strncmp(insn->function->name, "entry_SYSCALL", 13) == 0);
}

static enum ktax_forgets forgets(const struct ktax_insn *insn, enum ktax_costly kind,
                                 const uint8_t *bytes, size_t size)
{
    switch (kind) {
    case COSTLY_CR3_WRITE:
        return is_entry(insn) ? FORGETS_BY_ENTRY : FORGETS_USER;
    case COSTLY_INVLPG:
        return FORGETS_ADDRESSES;
    case COSTLY_INVPCID:
        return FORGETS_ALL;
    case COSTLY_SERIALIZING:
        return ktax_is_control_write(bytes, size) ? FORGETS_ALL : FORGETS_NOTHING;
    default:
        return FORGETS_NOTHING;
    }
}

/* What jumps to a thunk is counted, and not what the thunk does then. */
static void watch_costly(const struct ktax_insn *insn, enum ktax_costly kind, uint64_t target)
{
    const struct ktax_function *called = target ? ktax_symbols_find(target) : NULL;
    bool is_in_thunk = insn->function && insn->function->thunk != THUNK_NONE;

    if (called && called->begin == target && called->thunk != THUNK_NONE) {
        bool is_return = called->thunk == THUNK_OF_RETURNS;
        kind = is_return ? COSTLY_RETURN_THUNK : COSTLY_INDIRECT;
    }
    if (is_in_thunk && (kind == COSTLY_INDIRECT || kind == COSTLY_RETURN_THUNK)) {
        return;
    }
    /* Each dispatch of a repeated one is an iteration: its own callback finds the starts. */
    if (kind != COSTLY_NONE && ktax_costly_counted && !ktax_is_costly_rep(kind)) {
        ktax_costly_watch(insn->insn, kind, insn->slot);
    }
}

static void instrument(struct stretch *stretch, struct qemu_plugin_insn *handle, bool is_first)
{
    uint8_t bytes[16];
    size_t size = ktax_insn_bytes(handle, bytes, sizeof(bytes));
    uint64_t address = qemu_plugin_insn_vaddr(handle);
    bool kernel = address >> 63;
    struct ktax_function *function = kernel ? ktax_symbols_find(address) : NULL;
    struct ktax_insn insn = {
        .insn = handle,
        .address = address,
        .kind = ktax_decode(bytes, size),
        .costly = ktax_costly_of(bytes, size),
        .function = function,
        .slot = kernel ? ktax_slot_of(function) : ktax_user_slot(address),
    };
    enum ktax_costly kind = insn.costly;
    if (ktax_coherence) {
        bool remaps = forgets(&insn, kind, bytes, size) != FORGETS_NOTHING;
        ktax_coherence_watch(handle, insn.slot, remaps);
    }
    uint64_t target = 0;
    enum ktax_flow flow = kernel ? ktax_flow(bytes, size, address, &target) : FLOW_NONE;
    if (kernel && ktax_paths_followed) {
        ktax_watch_calls(&insn, is_first, flow, target);
    }
    watch_costly(&insn, kind, target);
    enum ktax_watch watched = kernel ? ktax_watch_kernel(&insn) : ktax_watch_user(&insn);
    /* In the context that begins with the instruction. */
    if (ktax_machine) {
        ktax_machine_watch(handle, is_first, insn.slot, forgets(&insn, kind, bytes, size));
    }
    ktax_draw_watch(&insn);
    bool joins = stretch->open && watched == WATCH_NOTHING && insn.slot == stretch->count.slot &&
                 !may_cross_page(address);

    if (!joins) {
        finish(stretch);
        stretch->first = handle;
        stretch->count.slot = insn.slot;
        stretch->count.user = !kernel;
    }
    stretch->count.in_slot += watched == WATCH_NOTHING || watched == WATCH_CALLBACK;
    stretch->count.in_total += watched != WATCH_MARKER;
    stretch->open = watched < WATCH_COUNTED && ktax_completes(bytes, size, kernel);
}

/* May the context change in this block? */
static bool has_turn(struct qemu_plugin_tb *tb)
{
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        struct ktax_function *function = address >> 63 ? ktax_symbols_find(address) : NULL;
        uint8_t bytes[16];
        size_t size = ktax_insn_bytes(insn, bytes, sizeof(bytes));
        if ((function && function->role != ROLE_NONE) ||
            ktax_watch_is_turn(ktax_decode(bytes, size))) {
            return true;
        }
    }
    return false;
}

static int slot_of(uint64_t address)
{
    return address >> 63 ? ktax_slot_of(ktax_symbols_find(address)) : ktax_user_slot(address);
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t count = qemu_plugin_tb_n_insns(tb);
    uint64_t first = qemu_plugin_tb_vaddr(tb);
    struct stretch stretch = { .translator = -1 };

    (void)id;
    if (count > 0 && !(first >> 63)) {
        ktax_user_block(tb);
    }
    if (!ktax_one_cpu()) {
        stretch.translator = ktax_slices_watch(tb, slot_of(first), has_turn(tb));
    }
    if (ktax_machine && count > 0) {
        struct qemu_plugin_insn *end = qemu_plugin_tb_get_insn(tb, count - 1);
        ktax_branches_watch(tb, end, slot_of(qemu_plugin_insn_vaddr(end)));
    }
    for (size_t i = 0; i < count; i++) {
        instrument(&stretch, qemu_plugin_tb_get_insn(tb, i), i == 0);
    }
    finish(&stretch);
}

static void on_vcpu(qemu_plugin_id_t id, unsigned int vcpu)
{
    (void)id;
    (void)vcpu;
    ktax_cpus_start();
    ktax_counters_start();
    ktax_draw_start();
}

static void at_exit(qemu_plugin_id_t id, void *data)
{
    (void)id;
    (void)data;
    ktax_report_write();
    ktax_draw_close();
}

static bool accept_machine(const qemu_info_t *info)
{
    if (!info->system_emulation || strcmp(info->target_name, "x86_64") != 0) {
        return refuse("counts whole x86_64 machines only; run it with qemu-system-x86_64");
    }
    if (info->system.smp_vcpus != info->system.max_vcpus) {
        return refuse("counts vCPUs that are there from the start; run QEMU with -smp N");
    }
    if (!ktax_cpus_init(info->system.smp_vcpus)) {
        return refuse("cannot tell that many vCPUs of this QEMU apart; run QEMU 10.0 with "
                           "-smp 32 at most");
    }
    return true;
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    if (!accept_machine(info) || !read_arguments(argc, argv)) {
        return 1;
    }
    if (!ktax_one_cpu() && !ktax_slices_init()) {
        refuse("schedules several vCPUs by quantum=N, and that needs QEMU 10.0");
        return 1;
    }
    if (!ktax_counters_init()) {
        refuse("finds no way to count in this QEMU; use QEMU 7.2 to 10.x");
        return 1;
    }
    qemu_plugin_register_vcpu_init_cb(id, on_vcpu);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    qemu_plugin_register_atexit_cb(id, at_exit, NULL);
    return 0;
}
