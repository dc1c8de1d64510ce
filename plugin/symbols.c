/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Symbols of the kernel: its functions, and its variables by address. */
#include "symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpus.h"

/* Files of symbols: docs/wire.md. */

/* Takes a symbol, whose name is kept; false: there is not enough memory. */
typedef bool (*ktax_symbol_fn)(uint64_t address, const char *name);

#define LONGEST_NAME 127u

static bool is_name_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '$';
}

/* Returns how many hexadecimal digits `text` begins with. By hand: each Run reads all symbols. */
static size_t read_hex(const char *text, uint64_t *value)
{
    size_t digits = 0;

    for (*value = 0;; digits++) {
        char c = text[digits];
        if (c >= '0' && c <= '9') {
            *value = *value << 4 | (unsigned)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            *value = *value << 4 | (unsigned)(c - 'a' + 10);
        } else {
            return digits;
        }
    }
}

/* The line ends with NUL, and is kept. */
static const char *read_line(const char *line, uint64_t *last, ktax_symbol_fn add)
{
    uint64_t address;
    size_t digits = read_hex(line, &address);
    const char *name = line + digits + 1;
    size_t length = 0;

    if (digits == 0 || digits > 16 || line[digits] != ' ' || !*name) {
        return "is not `ADDRESS NAME`";
    }
    while (is_name_char(name[length])) {
        length++;
    }
    if (name[length] != '\0') {
        return "has a name with other characters than A-Z a-z 0-9 _ . $";
    }
    if (length > LONGEST_NAME) {
        return "has a name that is too long";
    }
    if (address < *last) {
        return "is not sorted by address";
    }
    *last = address;
    return add(address, name) ? NULL : "does not fit in memory";
}

/* Returns the whole file, with a NUL behind it; NULL says errno why not. */
static char *read_file(const char *path, size_t *size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    char *text = NULL;

    *size = 0;
    if (fd >= 0 && fstat(fd, &status) == 0) {
        text = malloc((size_t)status.st_size + 1);
    }
    while (text && *size < (size_t)status.st_size) {
        ssize_t n = read(fd, text + *size, (size_t)status.st_size - *size);
        if (n < 0) {
            free(text);
            text = NULL;
            break;
        }
        if (n == 0) { /* became shorter: the last line is not whole */
            break;
        }
        *size += (size_t)n;
    }
    if (text) {
        text[*size] = '\0';
    }
    if (fd >= 0) {
        close(fd);
    }
    return text;
}

/* Reads a file, in the order of its addresses. On failure prints what to do and returns false. */
static bool read_symbol_file(const char *path, ktax_symbol_fn add)
{
    size_t size;
    char *text = read_file(path, &size); /* never freed: it has the names */
    const char *wrong = NULL;
    uint64_t last = 0;

    if (!text) {
        fprintf(stderr, "ktax plugin: cannot read symbols %s: %s; give a file that is readable\n",
                path, strerror(errno));
        return false;
    }
    char *line = text;
    for (size_t number = 1; !wrong && line < text + size; number++) {
        char *end = memchr(line, '\n', (size_t)(text + size - line));
        if (end) {
            *end = '\0';
        }
        wrong = end ? read_line(line, &last, add) : "is not whole";
        if (wrong) {
            fprintf(stderr, "ktax plugin: line %zu of symbols %s %s; write the file again\n",
                    number, path, wrong);
        } else {
            line = end + 1;
        }
    }
    return wrong == NULL;
}

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
    bool loaded = read_symbol_file(path, add);

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

/* No variable is larger. Memory farther behind a symbol does not belong to it. */
#define LARGEST_VARIABLE (UINT64_C(16) << 20)
#define LINE UINT64_C(63)

static struct symbol {
    uint64_t address;
    const char *name;
} *symbols;
static size_t variable_count;
static size_t variable_room;

/* Of the variables that each CPU has one of. Since Linux 6.15 they do not begin at 0. */
static uint64_t percpu_begin;
static uint64_t percpu_end;

static bool add_variable(uint64_t address, const char *name)
{
    if (strcmp(name, "__per_cpu_start") == 0) {
        percpu_begin = address;
    } else if (strcmp(name, "__per_cpu_end") == 0) {
        percpu_end = address;
    }
    if (variable_count == variable_room) {
        variable_room = variable_room ? variable_room * 2 : 65536;
        symbols = realloc(symbols, variable_room * sizeof(*symbols));
        if (!symbols) {
            return false;
        }
    }
    symbols[variable_count++] = (struct symbol){ address, name };
    return true;
}

bool ktax_memory_load(const char *path)
{
    return read_symbol_file(path, add_variable);
}

/* The first of several at the same address. */
static const struct symbol *find(uint64_t address)
{
    size_t low = 0;
    size_t high = variable_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (symbols[middle].address <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    while (low > 1 && symbols[low - 2].address == symbols[low - 1].address) {
        low--;
    }
    return low > 0 && address - symbols[low - 1].address < LARGEST_VARIABLE ? &symbols[low - 1]
                                                                            : NULL;
}

static bool name(struct ktax_memory *place, const char *kind, uint64_t address, uint64_t line)
{
    const struct symbol *symbol = find(address);

    if (symbol) {
        place->kind = kind;
        place->symbol = symbol->name;
        place->line_offset = line > symbol->address ? line - symbol->address : 0;
    }
    return symbol != NULL;
}

/* Where Linux has what on x86, with four levels of page tables and with five. */
static const struct area {
    uint64_t begin;
    const char *kind;
    bool is_large; /* its pages have 2 MiB */
} areas[] = {
    { UINT64_C(0xffffffffa0000000), "other", false },
    { UINT64_C(0xffffffff80000000), "other", true },
    { UINT64_C(0xfffffe0000000000), "other", false },
    { UINT64_C(0xffffea0000000000), "pages", true },
    { UINT64_C(0xffffc90000000000), "vmalloc", false },
    { UINT64_C(0xffff888000000000), "direct", true },
    { UINT64_C(0xffff800000000000), "other", false },
    { UINT64_C(0xffd4000000000000), "pages", true },
    { UINT64_C(0xffa0000000000000), "vmalloc", false },
    { UINT64_C(0xff11000000000000), "direct", true },
    { UINT64_C(1) << 63, "other", false },
    { 0, "user", false },
};

static const struct area *area_of(uint64_t address)
{
    const struct area *area = areas;

    while (address < area->begin) {
        area++;
    }
    return area;
}

bool ktax_memory_is_large(uint64_t address)
{
    return area_of(address)->is_large;
}

struct ktax_memory ktax_memory_of(uint64_t address)
{
    struct ktax_memory place = { 0 };

    for (int i = 0; i < ktax_cpu_count; i++) {
        uint64_t own = address - ktax_cpus[i].base;
        if (own >= percpu_begin && own < percpu_end &&
            name(&place, "percpu", own, (address & ~LINE) - ktax_cpus[i].base)) {
            return place;
        }
    }
    if (address >= UINT64_C(0xffffffff80000000) &&
        name(&place, "data", address, address & ~LINE)) {
        return place;
    }
    place.kind = area_of(address)->kind;
    return place;
}

const char *ktax_memory_both(const char *one, const char *other)
{
    bool in_order = strcmp(one, other) < 0;
    size_t size = strlen(one) + strlen(other) + 2;
    char *both = malloc(size);

    if (both) {
        snprintf(both, size, "%s,%s", in_order ? one : other, in_order ? other : one);
    }
    return both ? both : one;
}
