/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The functions of the user's programs, by the machine code that user mode executes. */
#ifndef KTAX_USER_H
#define KTAX_USER_H

#include <stdbool.h>

#include "qemu_api.h"

/* Reads the files of docs/wire.md, Programs. On failure prints what to do and returns false. */
bool ktax_user_load(const char *archive, const char *functions);

/* Finds out which program or library a block of user mode is of. Call it before its slots. */
void ktax_user_block(const struct qemu_plugin_tb *tb);

/* The slot of an instruction of that block: of its function, else of its file, else SLOT_USER. */
int ktax_user_slot(uint64_t address);

#endif
