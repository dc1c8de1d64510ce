/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Instructions that cost many times what others cost, by function and context. Each is counted when
 * it is dispatched.
 */
#ifndef KTAX_COSTLY_H
#define KTAX_COSTLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "qemu_api.h"
#include "counters-table.h"
#include "region.h"

/* Whether they are counted at all. */
extern bool ktax_costly_counted;

/* What the instruction is by its bytes, and the name of that; costly-bytes.c. */
enum ktax_costly ktax_costly_of(const uint8_t *bytes, size_t size);
bool ktax_is_control_write(const uint8_t *bytes, size_t size); /* of CR0 or CR4 */
const char *ktax_costly_name(enum ktax_costly kind);
static inline bool ktax_is_costly_rep(enum ktax_costly kind)
{
    return kind >= COSTLY_REP_STOSB && kind <= COSTLY_REP_MOVS;
}

/* Counts each dispatch of the instruction, in its slot. */
void ktax_costly_watch(struct qemu_plugin_insn *insn, enum ktax_costly kind, int slot);

/* Counts one that is known by what it accesses. */
void ktax_costly_count(enum ktax_costly kind, int slot);

/* At the markers. Forgets all counts; copies them, or returns false. */
void ktax_costly_clear(void);
bool ktax_costly_take(struct ktax_region *to);

/* Gives what is pending on this vCPU to a context. */
void ktax_costly_settle(enum ktax_context context);

/* Why not all could be counted, or NULL. */
const char *ktax_costly_split_failed(void);

#endif
