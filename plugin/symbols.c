/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "symbols.h"

#include <stdlib.h>
#include <string.h>

#include "symbol-file.h"

/* No kernel function is larger. Code farther behind a symbol does not belong to it. */
#define LARGEST_FUNCTION (64u << 10)
/* The last entry function is this long at most. */
#define LARGEST_ENTRY 4096u

static struct ktax_function *functions;
static size_t count;
static size_t room;
static unsigned roles;
static uint64_t entry_begin = UINT64_MAX;
static uint64_t entry_end;

static bool starts(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* The names are those of Linux 5.8 and later. */
static enum ktax_role role_of(const char *name)
{
    static const struct {
        const char *name;
        enum ktax_role role;
    } exact[] = {
        { "asm_common_interrupt", ROLE_INTERRUPT },
        { "asm_spurious_interrupt", ROLE_INTERRUPT },
        { "asm_exc_nmi", ROLE_INTERRUPT },
        { "asm_exc_machine_check", ROLE_INTERRUPT },
        { "irq_entries_start", ROLE_STUBS },
        { "spurious_entries_start", ROLE_STUBS },
        { "__switch_to_asm", ROLE_SWITCH },
        { "ret_from_fork_asm", ROLE_NEW_TASK },
        { "ret_from_fork", ROLE_NEW_TASK }, /* since 6.6 called by the former: harmless */
        { "start_kernel", ROLE_START },
    };

    for (size_t i = 0; i < sizeof(exact) / sizeof(exact[0]); i++) {
        if (strcmp(name, exact[i].name) == 0) {
            return exact[i].role;
        }
    }
    if (starts(name, "asm_sysvec_")) {
        return ROLE_INTERRUPT;
    }
    return starts(name, "asm_exc_") ? ROLE_EXCEPTION : ROLE_NONE;
}

static bool starts_with_any(const char *name, const char *const *prefixes)
{
    while (*prefixes && !starts(name, *prefixes)) {
        prefixes++;
    }
    return *prefixes != NULL;
}

static enum ktax_thunk thunk_of(const char *name)
{
    static const char *const of_calls[] = {
        "__x86_indirect_", "__fentry__", "__cfi_", "__pi___fentry__", "its_static_thunk", NULL,
    };
    static const char *const of_returns[] = {
        "__x86_return_thunk", "srso_", "retbleed_", "zen_untrain_ret", "its_return_thunk", NULL,
    };

    if (starts_with_any(name, of_calls)) {
        return THUNK_OF_CALLS;
    }
    return starts_with_any(name, of_returns) ? THUNK_OF_RETURNS : THUNK_NONE;
}

static enum ktax_scheduling scheduling_of(const char *name)
{
    if (strcmp(name, "__schedule") == 0 || starts(name, "__schedule.")) {
        return SCHEDULING_BEGINS;
    }
    if (starts(name, "dequeue_task_")) {
        return SCHEDULING_SLEEPS;
    }
    if (starts(name, "enqueue_task_")) {
        return SCHEDULING_WAKES;
    }
    /* Without a timer of its own, a CPU has that of the chipset, as it has devices. */
    if (strcmp(name, "timer_interrupt") == 0 || strcmp(name, "hrtimer_interrupt") == 0 ||
        strcmp(name, "run_timer_softirq") == 0) {
        return SCHEDULING_TIMER;
    }
    return strcmp(name, "schedule_idle") == 0 ? SCHEDULING_IDLE : SCHEDULING_NOTHING;
}

static bool is_cold(const char *name)
{
    size_t length = strlen(name);

    return length > 5 && strcmp(name + length - 5, ".cold") == 0;
}

static void note_role(struct ktax_function *f, enum ktax_role role)
{
    if (role == ROLE_NONE) {
        return;
    }
    f->role = role;
    roles |= 1u << role;
    if (role == ROLE_INTERRUPT || role == ROLE_EXCEPTION) {
        entry_begin = f->begin < entry_begin ? f->begin : entry_begin;
        entry_end = f->begin + LARGEST_ENTRY;
    }
}

/* If an address has several names, the first is used; any of them may have the role. */
static bool add(uint64_t address, const char *name)
{
    if (!(address >> 63)) {
        return true; /* per-CPU offsets and the like */
    }
    if (count > 0 && functions[count - 1].begin == address) {
        note_role(&functions[count - 1], role_of(name));
        return true;
    }
    if (count == room) {
        room = room ? room * 2 : 65536;
        functions = realloc(functions, room * sizeof(*functions));
        if (!functions) {
            return false;
        }
    }
    functions[count] = (struct ktax_function){
        .begin = address,
        .name = name,
        .thunk = thunk_of(name),
        .scheduling = scheduling_of(name),
        .is_cold = is_cold(name),
        .slot = -1,
    };
    note_role(&functions[count], role_of(name));
    count++;
    return true;
}

static void set_ends(void)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t limit = functions[i].begin + LARGEST_FUNCTION;
        uint64_t next = i + 1 < count ? functions[i + 1].begin : limit;
        functions[i].end = next < limit ? next : limit;
    }
}

bool ktax_symbols_load(const char *path)
{
    bool loaded = ktax_symbol_file_read(path, add);

    set_ends();
    return loaded;
}

struct ktax_function *ktax_symbols_find(uint64_t address)
{
    size_t low = 0;
    size_t high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (functions[middle].begin <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && address < functions[low - 1].end ? &functions[low - 1] : NULL;
}

bool ktax_symbols_have(enum ktax_role role)
{
    return roles & (1u << role);
}

bool ktax_symbols_in_entry(uint64_t address)
{
    return address >= entry_begin && address < entry_end;
}
