/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The few x86 instructions that the plugin knows by their bytes. */
#ifndef KTAX_DECODE_H
#define KTAX_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "counters-table.h"

enum ktax_kind {
    KIND_PLAIN,
    KIND_REP,          /* a REP string instruction */
    KIND_IRETQ,
    KIND_SYSRET,
    KIND_SAVE_STACK,   /* mov %rsp, disp32(%rdi) */
    KIND_LOAD_STACK,   /* mov disp32(%rsi), %rsp */
    KIND_PAUSE,        /* pause, or mwait, which is one if there are several vCPUs */
    KIND_HALT,
    KIND_REGION_BEGIN,
    KIND_REGION_END,
    KIND_SLICES_BEGIN,
};

/* What changes the stack of calls. */
enum ktax_flow {
    FLOW_NONE,
    FLOW_CALL,
    FLOW_RETURN,
    FLOW_IRETQ,
    FLOW_JUMP, /* always, and to an address in its bytes */
};

/* `target` is set for a call or jump to an address in its bytes, else it is 0. */
enum ktax_flow ktax_flow(const uint8_t *bytes, size_t size, uint64_t address, uint64_t *target);

/* How many prefixes it begins with. */
size_t ktax_prefixes(const uint8_t *bytes, size_t size);

enum ktax_kind ktax_decode(const uint8_t *bytes, size_t size);

/*
 * Does the instruction surely complete, so that the next one of its translation block is
 * dispatched too? True only for well-known instructions.
 */
bool ktax_completes(const uint8_t *bytes, size_t size, bool kernel);

/* The kind of an instruction by its bytes, and the kind's name. */
enum ktax_costly ktax_costly_of(const uint8_t *bytes, size_t size);
bool ktax_is_control_write(const uint8_t *bytes, size_t size); /* of CR0 or CR4 */
const char *ktax_costly_name(enum ktax_costly kind);
static inline bool ktax_is_costly_rep(enum ktax_costly kind)
{
    return kind >= COSTLY_REP_STOSB && kind <= COSTLY_REP_MOVS;
}

#endif
