/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
    char *at = NULL;

    if (fd >= 0 && fstat(fd, &status) == 0) {
        *size = (size_t)status.st_size;
        /* An empty file cannot be mapped. */
        at = mmap(NULL, *size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    }
    if (fd >= 0) {
        close(fd);
    }
    return at == MAP_FAILED ? NULL : at;
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

bool ktax_text_load(const char *archive, const char *functions)
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
    for (size_t at = 1; line < text + size; at++) {
        char *end = memchr(line, '\n', (size_t)(text + size - line));
        if (end) {
            *end = '\0';
        }
        if (!end || !add(line)) {
            fprintf(stderr, "ktax plugin: line %zu of %s is not of the format; write it again\n",
                    at, functions);
            return false;
        }
        line = end + 1;
    }
    return true;
}
