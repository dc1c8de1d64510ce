/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions of the user's programs: which function of which file user mode executes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "counters.h"
#include "symbols.h"

/* The machine code of programs and libraries, and their functions: docs/wire.md, Programs. */

struct ktax_user_function {
    uint64_t begin; /* as the file has it */
    uint64_t end;
    const char *name;
    int slot; /* -1: not seen running yet */
};

struct ktax_object {
    const char *name;
    struct ktax_user_function *functions; /* sorted by address */
    size_t count;
    int slot; /* of code outside every function; -1 likewise */
};

/* A segment of machine code. */
struct ktax_text {
    size_t object;
    const uint8_t *bytes;
    uint64_t address; /* as the file has it */
    uint64_t size;
};

extern struct ktax_object *ktax_objects;
extern struct ktax_text *ktax_texts;
extern size_t ktax_text_count;

struct ktax_object *ktax_objects;
struct ktax_text *ktax_texts;
size_t ktax_text_count;

static size_t object_count;
static const uint8_t *archive_bytes;
static size_t archive_size;

/* The file in memory; NULL says errno why not. */
static char *map(const char *path, size_t *size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    char *bytes = NULL;

    if (fd >= 0 && fstat(fd, &status) == 0) {
        *size = (size_t)status.st_size;
        /* An empty file cannot be mapped. */
        bytes = mmap(NULL, *size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    }
    if (fd >= 0) {
        close(fd);
    }
    return bytes == MAP_FAILED ? NULL : bytes;
}

/* A hexadecimal number and the space behind it. By hand: each Run reads all functions. */
static bool number(char **text, uint64_t *value)
{
    char *digit = *text;

    for (*value = 0;; digit++) {
        if (*digit >= '0' && *digit <= '9') {
            *value = *value << 4 | (unsigned)(*digit - '0');
        } else if (*digit >= 'a' && *digit <= 'f') {
            *value = *value << 4 | (unsigned)(*digit - 'a' + 10);
        } else {
            break;
        }
    }
    if (digit == *text || digit - *text > 16 || (*digit != ' ' && *digit != '\0')) {
        return false;
    }
    *text = *digit == ' ' ? digit + 1 : digit;
    return true;
}

/* Room for one more element: doubled whenever the count is a power of two. */
static void *grow(void *array, size_t count, size_t element)
{
    bool full = (count & (count - 1)) == 0;
    void *larger = full ? realloc(array, (count ? 2 * count : 1) * element) : array;

    if (!larger) {
        fprintf(stderr, "ktax plugin: out of memory; run fewer VMs at a time\n");
        abort();
    }
    return larger;
}

static bool add_object(const char *name)
{
    ktax_objects = grow(ktax_objects, object_count, sizeof(*ktax_objects));
    ktax_objects[object_count++] = (struct ktax_object){ .name = name, .slot = -1 };
    return *name != '\0';
}

static bool add_text(char *line)
{
    uint64_t offset, size, address;

    if (!number(&line, &offset) || !number(&line, &size) || !number(&line, &address)) {
        return false;
    }
    if (object_count == 0 || offset > archive_size || size > archive_size - offset) {
        return false;
    }
    ktax_texts = grow(ktax_texts, ktax_text_count, sizeof(*ktax_texts));
    ktax_texts[ktax_text_count++] = (struct ktax_text){
        .object = object_count - 1,
        .bytes = archive_bytes + offset,
        .address = address,
        .size = size,
    };
    return true;
}

/* A function without a size ends where the next one begins. */
static bool add_function(char *line)
{
    uint64_t begin, size;

    if (!number(&line, &begin) || !number(&line, &size) || object_count == 0 || !*line) {
        return false;
    }
    struct ktax_object *object = &ktax_objects[object_count - 1];
    struct ktax_user_function *last =
        object->count ? &object->functions[object->count - 1] : NULL;
    if (last && last->begin >= begin) {
        return false;
    }
    if (last && last->end == last->begin) {
        last->end = begin;
    }
    object->functions = grow(object->functions, object->count, sizeof(*object->functions));
    object->functions[object->count++] = (struct ktax_user_function){
        .begin = begin,
        .end = begin + size,
        .name = line,
        .slot = -1,
    };
    return true;
}

static bool add(char *line)
{
    if (strncmp(line, "object ", 7) == 0) {
        return add_object(line + 7);
    }
    if (strncmp(line, "text ", 5) == 0) {
        return add_text(line + 5);
    }
    return strncmp(line, "fn ", 3) == 0 && add_function(line + 3);
}

/* On failure prints what to do and returns false. */
static bool load_text(const char *archive, const char *functions)
{
    size_t size = 0;
    char *text = map(functions, &size);
    char *line = text;

    archive_bytes = (const uint8_t *)map(archive, &archive_size);
    if (!text || !archive_bytes) {
        fprintf(stderr, "ktax plugin: cannot read %s: %s; give functions=FILE and archive=FILE\n",
                text ? archive : functions, strerror(errno));
        return false;
    }
    for (size_t number = 1; line < text + size; number++) {
        char *end = memchr(line, '\n', (size_t)(text + size - line));
        if (end) {
            *end = '\0';
        }
        if (!end || !add(line)) {
            fprintf(stderr, "ktax plugin: line %zu of %s is not of the format; write it again\n",
                    number, functions);
            return false;
        }
        line = end + 1;
    }
    return true;
}

/*
 * A plugin does not see address spaces, so a block of user mode is looked up by its bytes: the code
 * of x86-64 is the same in memory as in the file. Pages are mapped as they are in the file, so the
 * last twelve bits of an address are the same, too. Where a file was found once, it is looked for
 * first, the last one before the others. So short blocks, which many files have, are of the file
 * that runs.
 */

enum { PAGE = 4096, MOST_BYTES = 64, LEAST_BYTES = 8, MAPPINGS = 256, LONGEST_NAME = 192 };

/* Where a segment is: address = address in the file + delta. */
struct mapping {
    const struct ktax_text *text;
    uint64_t delta;
};

struct block {
    uint64_t address;
    uint8_t bytes[MOST_BYTES];
    size_t size;
};

static struct mapping mappings[MAPPINGS]; /* the one that was used last first */
static size_t mapping_count;
static const struct mapping *here; /* NULL: the block is of no file */

bool ktax_user_load(const char *archive, const char *functions)
{
    return load_text(archive, functions);
}

/* The bytes of a block as far as they are on one page: the next one may be of another file. */
static void read_block(const struct qemu_plugin_tb *tb, struct block *block)
{
    size_t count = qemu_plugin_tb_n_insns(tb);

    block->size = 0;
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        uint8_t bytes[16];
        size_t size = ktax_insn_bytes(insn, bytes, sizeof(bytes));
        if (i == 0) {
            block->address = address;
        }
        if (block->size + size > MOST_BYTES || ((address + size - 1) ^ block->address) >= PAGE) {
            return;
        }
        memcpy(block->bytes + block->size, bytes, size);
        block->size += size;
    }
}

static bool is_at(const struct block *block, const struct ktax_text *text, uint64_t address)
{
    uint64_t offset = address - text->address;

    return address >= text->address && text->size >= block->size &&
           offset <= text->size - block->size &&
           memcmp(text->bytes + offset, block->bytes, block->size) == 0;
}

static const struct mapping *use(struct mapping mapping, size_t index)
{
    memmove(mappings + 1, mappings, index * sizeof(*mappings));
    mappings[0] = mapping;
    return mappings;
}

static const struct mapping *find_known(const struct block *block)
{
    for (size_t i = 0; i < mapping_count; i++) {
        if (is_at(block, mappings[i].text, block->address - mappings[i].delta)) {
            return use(mappings[i], i);
        }
    }
    return NULL;
}

/* Looks on every page of every file. More than one place is none. */
static const struct mapping *find_new(const struct block *block)
{
    struct mapping found = { 0 };

    for (size_t i = 0; i < ktax_text_count; i++) {
        const struct ktax_text *text = &ktax_texts[i];
        uint64_t address = (text->address & ~(uint64_t)(PAGE - 1)) | (block->address & (PAGE - 1));
        for (; address < text->address + text->size; address += PAGE) {
            if (is_at(block, text, address)) {
                if (found.text) {
                    return NULL;
                }
                found = (struct mapping){ text, block->address - address };
            }
        }
    }
    if (!found.text) {
        return NULL;
    }
    mapping_count += mapping_count < MAPPINGS;
    return use(found, mapping_count - 1);
}

void ktax_user_block(const struct qemu_plugin_tb *tb)
{
    struct block block;

    here = NULL;
    if (ktax_text_count == 0) {
        return;
    }
    read_block(tb, &block);
    if (block.size > 0) {
        here = find_known(&block);
    }
    if (!here && block.size >= LEAST_BYTES) {
        here = find_new(&block);
    }
}

static struct ktax_user_function *find_function(struct ktax_object *object, uint64_t address)
{
    size_t low = 0;
    size_t high = object->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (object->functions[middle].begin <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    struct ktax_user_function *function = low > 0 ? &object->functions[low - 1] : NULL;
    return function && address < function->end ? function : NULL;
}

int ktax_user_slot(uint64_t address)
{
    if (!here) {
        return SLOT_USER;
    }
    struct ktax_object *object = &ktax_objects[here->text->object];
    struct ktax_user_function *function = find_function(object, address - here->delta);
    int *slot = function ? &function->slot : &object->slot;
    if (*slot < 0) {
        char name[LONGEST_NAME];
        snprintf(name, sizeof(name), "[%s]%s", object->name, function ? function->name : "");
        *slot = ktax_slot_of_user(name);
    }
    return *slot;
}
