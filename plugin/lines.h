/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which lines travel, and what they are called. */
#ifndef KTAX_LINES_H
#define KTAX_LINES_H

#include "coherence.h"

/* One transfer of a line, by an instruction of that slot that used that address. */
void ktax_lines_add(uint64_t line, uint64_t address, int slot);

void ktax_lines_clear(void);

/* The lines by name, those that travel most first. False: there is not enough memory. */
bool ktax_lines_take(struct ktax_lines *to);

#endif
