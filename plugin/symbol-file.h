/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files of symbols: docs/wire.md. */
#ifndef KTAX_SYMBOL_FILE_H
#define KTAX_SYMBOL_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* Takes a symbol, whose name is kept; false: there is not enough memory. */
typedef bool (*ktax_symbol_fn)(uint64_t address, const char *name);

/* Reads a file, in the order of its addresses. On failure prints what to do and returns false. */
bool ktax_symbol_file_read(const char *path, ktax_symbol_fn add);

#endif
