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
#include "region.h"

/* Whether they are counted at all. */
extern bool ktax_costly_counted;

/* The order is that of `names` in costly-bytes.c. */
enum ktax_costly {
    COSTLY_NONE,
    COSTLY_CR3_WRITE,
    COSTLY_INVLPG,
    COSTLY_INVPCID,
    COSTLY_WRMSR,
    COSTLY_RDMSR,
    COSTLY_SWAPGS,
    COSTLY_VERW,
    COSTLY_LOCKED,
    COSTLY_FENCE,
    COSTLY_SERIALIZING,     /* cpuid, wbinvd, loads of CR0 and CR4 */
    COSTLY_SYSCALL,
    COSTLY_SYSRET,
    COSTLY_IRET,
    COSTLY_INT,
    COSTLY_INTERRUPT_FLAG,  /* cli, sti, popf */
    COSTLY_PORT,
    COSTLY_MMIO,            /* an access to memory that is a device's; if a machine is modelled */
    COSTLY_HLT,             /* and mwait */
    COSTLY_PAUSE,
    COSTLY_XSAVE,           /* and xrstor, fxsave, fxrstor, of any kind */
    COSTLY_CLFLUSH,         /* and clflushopt, clwb */
    COSTLY_RDTSC,           /* and rdtscp, rdpmc */
    COSTLY_RDRAND,          /* and rdseed */
    COSTLY_INDIRECT,        /* a call or jump to an address in a register or in memory */
    COSTLY_RETURN_THUNK,    /* a return that jumps to a thunk */
    COSTLY_REP_STOSB,       /* each start of a repeated one; its iterations are counted by rep.c */
    COSTLY_REP_STOS,        /* of 2, 4 or 8 bytes */
    COSTLY_REP_MOVSB,
    COSTLY_REP_MOVS,
    COSTLY_COUNT,
};

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
