/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The machine code of programs and libraries, and their functions: docs/wire.md, Programs. */
#ifndef KTAX_TEXT_H
#define KTAX_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* On failure prints what to do and returns false. */
bool ktax_text_load(const char *archive, const char *functions);

#endif
