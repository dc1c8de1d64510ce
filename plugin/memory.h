/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is at an address: the kernel's variables by their symbols, other memory by its kind. */
#ifndef KTAX_MEMORY_H
#define KTAX_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct ktax_memory {
    const char *kind;     /* data, percpu, direct, vmalloc, pages, user, other */
    const char *symbol;   /* NULL: none */
    uint64_t line_offset; /* of the address' line from the symbol; 0 if the line begins before it */
};

/* Reads the file of docs/wire.md. On failure prints what to do and returns false. */
bool ktax_memory_load(const char *path);

struct ktax_memory ktax_memory_of(uint64_t address);

/* Whether pages there have 2 MiB, by where Linux has them. */
bool ktax_memory_is_large(uint64_t address);

/* The names of two, in alphabetical order; kept. */
const char *ktax_memory_both(const char *one, const char *other);

#endif
