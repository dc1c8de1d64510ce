/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* No kernel function is larger. Code farther behind a symbol does not belong to it. */
#define LARGEST_FUNCTION (64u << 10)
/* The last entry function is this long at most. */
#define LARGEST_ENTRY 4096u
#define LONGEST_NAME 127u

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
    functions[count] = (struct ktax_function){ .begin = address, .name = name, .slot = -1 };
    note_role(&functions[count], role_of(name));
    count++;
    return true;
}

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
static const char *add_line(const char *line)
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
    if (count > 0 && address < functions[count - 1].begin) {
        return "is not sorted by address";
    }
    if (!(address >> 63)) {
        return NULL; /* per-CPU offsets and the like */
    }
    return add(address, name) ? NULL : "does not fit in memory";
}

static void set_ends(void)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t limit = functions[i].begin + LARGEST_FUNCTION;
        uint64_t next = i + 1 < count ? functions[i + 1].begin : limit;
        functions[i].end = next < limit ? next : limit;
    }
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

bool ktax_symbols_load(const char *path)
{
    size_t size;
    char *text = read_file(path, &size); /* never freed: it has the names */
    const char *wrong = NULL;

    if (!text) {
        fprintf(stderr, "ktax plugin: cannot read symbols %s: %s; give symbols=FILE\n", path,
                strerror(errno));
        return false;
    }
    char *line = text;
    for (size_t number = 1; !wrong && line < text + size; number++) {
        char *end = memchr(line, '\n', (size_t)(text + size - line));
        if (end) {
            *end = '\0';
        }
        wrong = end ? add_line(line) : "is not whole";
        if (wrong) {
            fprintf(stderr, "ktax plugin: line %zu of symbols %s %s; write the file again\n",
                    number, path, wrong);
        } else {
            line = end + 1;
        }
    }
    set_ends();
    return wrong == NULL;
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
