/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The instructions that cannot fault, trap or leave the translation block. An instruction that is
 * not listed costs time, but never gives a wrong count. The kernel's accesses to its stack, its
 * per-CPU data and its own image complete too: a fault there would be an oops.
 */
#include "decode.h"

#include <string.h>

enum {
    ANY = 1,    /* completes */
    STACK,      /* completes in the kernel */
    REGISTER,   /* completes when its operand is a register, in the kernel also with fixed memory */
    MOVE,       /* and ModRM reg 0: c6 and c7 are also TSX */
    UNARY,      /* and ModRM reg 0 to 5: f6 and f7 are also divisions */
    STEP,       /* and ModRM reg 0 or 1: fe and ff are also calls, jumps and pushes */
};

#define ALU(base) \
    [(base) ... (base) + 3] = REGISTER, [(base) + 4 ... (base) + 5] = ANY

static const uint8_t one_byte[256] = {
    ALU(0x00), ALU(0x08), ALU(0x10), ALU(0x18), ALU(0x20), ALU(0x28), ALU(0x30), ALU(0x38),
    [0x50 ... 0x5f] = STACK, [0x68] = STACK, [0x6a] = STACK,          /* push, pop */
    [0x63] = REGISTER, [0x69] = REGISTER, [0x6b] = REGISTER,          /* movslq, imul */
    [0x80 ... 0x81] = REGISTER, [0x83 ... 0x8b] = REGISTER,           /* ALU, test, xchg, mov */
    [0x8d] = ANY,                                                     /* lea */
    [0x90 ... 0x99] = ANY,                                            /* nop, xchg, cltq, cqto */
    [0xa8 ... 0xa9] = ANY, [0xb0 ... 0xbf] = ANY,                     /* test, mov */
    [0xc0 ... 0xc1] = REGISTER, [0xd0 ... 0xd3] = REGISTER,           /* shifts */
    [0xc6 ... 0xc7] = MOVE, [0xf6 ... 0xf7] = UNARY, [0xfe ... 0xff] = STEP,
    [0xf5] = ANY, [0xf8 ... 0xf9] = ANY, [0xfc ... 0xfd] = ANY,       /* cmc, clc, stc, cld, std */
};

static const uint8_t two_byte[256] = {
    [0x1f] = ANY,                                                     /* nop */
    [0x40 ... 0x4f] = REGISTER, [0x90 ... 0x9f] = REGISTER,           /* cmov, set */
    [0xa3 ... 0xa5] = REGISTER, [0xab ... 0xad] = REGISTER,           /* bt, shld, bts, shrd */
    [0xaf] = REGISTER, [0xb3] = REGISTER, [0xb6 ... 0xb7] = REGISTER, /* imul, btr, movz */
    [0xba ... 0xbf] = REGISTER, [0xc8 ... 0xcf] = ANY,                /* bt, bsf, movs, bswap */
};

enum { PREFIX_REX_B = 1, PREFIX_GS = 2 };

/* An operand on the stack, per CPU (%gs) or at an address relative to %rip. */
static bool is_fixed_memory(const uint8_t *modrm, size_t size, unsigned prefixes)
{
    uint8_t mod = modrm[0] >> 6;
    uint8_t rm = modrm[0] & 7;

    if (prefixes & PREFIX_GS) {
        return true;
    }
    if (rm == 4 && size > 1) {
        return modrm[1] == 0x24 && !(prefixes & PREFIX_REX_B); /* %rsp without index */
    }
    return rm == 5 && mod == 0;
}

static bool holds(uint8_t rule, const uint8_t *modrm, size_t size, bool kernel, unsigned prefixes)
{
    if (rule == ANY) {
        return true;
    }
    if (rule == STACK) {
        return kernel;
    }
    if (rule == 0 || size == 0) {
        return false;
    }
    uint8_t reg = modrm[0] >> 3 & 7;
    if ((rule == MOVE && reg > 0) || (rule == UNARY && reg > 5) || (rule == STEP && reg > 1)) {
        return false;
    }
    return modrm[0] >> 6 == 3 || (kernel && is_fixed_memory(modrm, size, prefixes));
}

bool ktax_completes(const uint8_t *bytes, size_t size, bool kernel)
{
    unsigned prefixes = 0;
    size_t i = 0;

    if (size == 4 && memcmp(bytes, "\xf3\x0f\x1e\xfa", 4) == 0) {
        return true; /* endbr64 */
    }
    for (; i < size; i++) {
        if ((bytes[i] & 0xf0) == 0x40) {
            prefixes |= bytes[i] & 1 ? PREFIX_REX_B : 0;
        } else if (bytes[i] == 0x65) {
            prefixes |= PREFIX_GS;
        } else if (bytes[i] != 0x66 && bytes[i] != 0x2e && bytes[i] != 0x3e) {
            break;
        }
    }
    const uint8_t *rules = one_byte;
    if (i < size && bytes[i] == 0x0f) {
        rules = two_byte;
        i++;
    }
    return i < size && holds(rules[bytes[i]], bytes + i + 1, size - i - 1, kernel, prefixes);
}
