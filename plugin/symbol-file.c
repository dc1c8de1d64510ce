/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "symbol-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

bool ktax_symbol_file_read(const char *path, ktax_symbol_fn add)
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
