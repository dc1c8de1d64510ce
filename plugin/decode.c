/* SPDX-License-Identifier: GPL-2.0-or-later */
/* x86 instructions, known by their bytes. */
#include "decode.h"

#include <stdbool.h>
#include <string.h>

static bool matches(const uint8_t *bytes, size_t size, const char *start, size_t length,
                    size_t whole)
{
    return size == whole && memcmp(bytes, start, length) == 0;
}

/* Operand size, address size, segment, REX. */
static bool is_prefix(uint8_t byte)
{
    return (byte & 0xfc) == 0x64 || (byte & 0xe7) == 0x26 || (byte & 0xf0) == 0x40;
}

/* F2 or F3 among the prefixes, then ins, outs, movs, cmps, stos, lods or scas. */
static bool is_rep(const uint8_t *bytes, size_t size)
{
    bool rep = false;
    size_t i = 0;

    for (; i < size; i++) {
        if (bytes[i] == 0xf2 || bytes[i] == 0xf3) {
            rep = true;
        } else if (!is_prefix(bytes[i])) {
            break;
        }
    }
    if (!rep || i + 1 != size) {
        return false;
    }
    uint8_t op = bytes[i];
    return (op >= 0xa4 && op <= 0xa7) || (op >= 0xaa && op <= 0xaf) || (op >= 0x6c && op <= 0x6f);
}

enum ktax_kind ktax_decode(const uint8_t *bytes, size_t size)
{
    if (is_rep(bytes, size)) {
        return KIND_REP;
    }
    if (matches(bytes, size, "\x48\xcf", 2, 2)) {
        return KIND_IRETQ;
    }
    if (matches(bytes, size, "\x48\x0f\x07", 3, 3) || matches(bytes, size, "\x0f\x07", 2, 2)) {
        return KIND_SYSRET;
    }
    if (matches(bytes, size, "\x48\x89\xa7", 3, 7)) {
        return KIND_SAVE_STACK;
    }
    if (matches(bytes, size, "\x48\x8b\xa6", 3, 7)) {
        return KIND_LOAD_STACK;
    }
    if (matches(bytes, size, "\x0f\x1f\x80\x01\x00\x54\x4b", 7, 7)) {
        return KIND_REGION_BEGIN;
    }
    if (matches(bytes, size, "\x0f\x1f\x80\x02\x00\x54\x4b", 7, 7)) {
        return KIND_REGION_END;
    }
    if (matches(bytes, size, "\x0f\x1f\x80\x03\x00\x54\x4b", 7, 7)) {
        return KIND_SLICES_BEGIN;
    }
    if (matches(bytes, size, "\xf3\x90", 2, 2) || matches(bytes, size, "\x0f\x01\xc9", 3, 3)) {
        return KIND_PAUSE;
    }
    if (matches(bytes, size, "\xf4", 1, 1)) {
        return KIND_HALT;
    }
    return KIND_PLAIN;
}

size_t ktax_prefixes(const uint8_t *bytes, size_t size)
{
    size_t i = 0;

    while (i < size && (is_prefix(bytes[i]) || bytes[i] == 0xf2 || bytes[i] == 0xf3)) {
        i++;
    }
    return i;
}

enum ktax_flow ktax_flow(const uint8_t *bytes, size_t size, uint64_t address, uint64_t *target)
{
    size_t i = ktax_prefixes(bytes, size);
    int32_t distance = 0;

    *target = 0;
    if (i == size) {
        return FLOW_NONE;
    }
    switch (bytes[i]) {
    case 0xe8:
    case 0xe9:
        if (i + 5 == size) {
            memcpy(&distance, bytes + i + 1, sizeof(distance));
            *target = address + size + (uint64_t)(int64_t)distance;
        }
        return bytes[i] == 0xe8 ? FLOW_CALL : FLOW_JUMP;
    case 0xff:
        return i + 1 < size && (bytes[i + 1] >> 3 & 7) == 2 ? FLOW_CALL : FLOW_NONE;
    case 0xc2:
    case 0xc3:
        return FLOW_RETURN;
    case 0xcf:
        return FLOW_IRETQ;
    default:
        return FLOW_NONE;
    }
}

/*
 * The instructions that cannot fault, trap or leave the translation block. An instruction that is
 * not listed costs time, but never gives a wrong count. The kernel's accesses to its stack, its
 * per-CPU data and its own image complete too: a fault there would be an oops.
 */

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

static const char *const names[COSTLY_COUNT] = { KTAX_COSTLY_NAMES };

/* What of an instruction tells its kind. */
struct opcode {
    bool is_lock;
    bool is_repeat;         /* F2 or F3 */
    bool is_operand_size;   /* 66 */
    bool is_extended;       /* REX.R: another register */
    bool has_modrm;
    uint8_t bytes[3];       /* the opcode, without its prefixes; 0 behind its end */
    uint8_t modrm;          /* behind the first byte, or behind the second if that is 0F */
};

static bool is_memory(const struct opcode *op)
{
    return op->has_modrm && op->modrm >> 6 != 3;
}

static int reg(const struct opcode *op)
{
    return op->has_modrm ? op->modrm >> 3 & 7 : -1;
}

static struct opcode parse(const uint8_t *bytes, size_t size)
{
    struct opcode op = { 0 };
    size_t i = 0;

    for (; i < size; i++) {
        uint8_t byte = bytes[i];
        op.is_lock |= byte == 0xf0;
        op.is_repeat |= byte == 0xf2 || byte == 0xf3;
        op.is_operand_size |= byte == 0x66;
        bool is_prefix = byte == 0xf0 || byte == 0xf2 || byte == 0xf3 ||
                         (byte & 0xfc) == 0x64 || (byte & 0xe7) == 0x26;
        if (!is_prefix) {
            break;
        }
    }
    if (i < size && (bytes[i] & 0xf0) == 0x40) {
        op.is_extended = bytes[i++] & 4; /* REX comes last */
    }
    for (size_t k = 0; k < 3 && i + k < size; k++) {
        op.bytes[k] = bytes[i + k];
    }
    size_t modrm = i + (op.bytes[0] == 0x0f ? 2 : 1);
    op.has_modrm = modrm < size;
    op.modrm = op.has_modrm ? bytes[modrm] : 0;
    return op;
}

/* 0F 01: by what the second byte addresses. */
static enum ktax_costly group_01(const struct opcode *op)
{
    if (is_memory(op)) {
        return reg(op) == 7 ? COSTLY_INVLPG : COSTLY_NONE;
    }
    switch (op->modrm) {
    case 0xf8:
        return COSTLY_SWAPGS;
    case 0xf9:
        return COSTLY_RDTSC;
    case 0xc9:
        return COSTLY_HLT;
    case 0xe8:
        return COSTLY_SERIALIZING;
    default:
        return COSTLY_NONE;
    }
}

/* 0F AE: saves and restores, flushes, fences. */
static enum ktax_costly group_ae(const struct opcode *op)
{
    if (!is_memory(op)) {
        bool is_plain = !op->is_repeat && !op->is_operand_size;
        return reg(op) >= 5 && is_plain ? COSTLY_FENCE : COSTLY_NONE;
    }
    switch (reg(op)) {
    case 0:
    case 1:
    case 4:
    case 5:
        return COSTLY_XSAVE;
    case 6:
        return op->is_operand_size ? COSTLY_CLFLUSH : COSTLY_XSAVE;
    case 7:
        return COSTLY_CLFLUSH;
    default:
        return COSTLY_NONE;
    }
}

/* 0F C7: more saves and restores, and random numbers. */
static enum ktax_costly group_c7(const struct opcode *op)
{
    if (is_memory(op)) {
        return reg(op) >= 3 && reg(op) <= 5 ? COSTLY_XSAVE : COSTLY_NONE;
    }
    return reg(op) >= 6 && !op->is_repeat ? COSTLY_RDRAND : COSTLY_NONE;
}

/* Loads of control registers. CR8 is another register. */
static enum ktax_costly control(const struct opcode *op)
{
    if (op->is_extended) {
        return COSTLY_NONE;
    }
    if (reg(op) == 3) {
        return COSTLY_CR3_WRITE;
    }
    return reg(op) == 0 || reg(op) == 4 ? COSTLY_SERIALIZING : COSTLY_NONE;
}

static enum ktax_costly behind_0f(const struct opcode *op)
{
    switch (op->bytes[1]) {
    case 0x00:
        return reg(op) == 5 ? COSTLY_VERW : COSTLY_NONE;
    case 0x01:
        return group_01(op);
    case 0x05:
    case 0x34:
        return COSTLY_SYSCALL;
    case 0x07:
    case 0x35:
        return COSTLY_SYSRET;
    case 0x08:
    case 0x09:
    case 0xa2:
        return COSTLY_SERIALIZING;
    case 0x22:
        return control(op);
    case 0x30:
        return COSTLY_WRMSR;
    case 0x32:
        return COSTLY_RDMSR;
    case 0x31:
    case 0x33:
        return COSTLY_RDTSC;
    case 0x38:
        return op->bytes[2] == 0x82 && op->is_operand_size ? COSTLY_INVPCID : COSTLY_NONE;
    case 0xae:
        return group_ae(op);
    case 0xc7:
        return group_c7(op);
    default:
        return COSTLY_NONE;
    }
}

static enum ktax_costly repeated(const struct opcode *op)
{
    switch (op->bytes[0]) {
    case 0xa4:
        return COSTLY_REP_MOVSB;
    case 0xa5:
        return COSTLY_REP_MOVS;
    case 0xaa:
        return COSTLY_REP_STOSB;
    case 0xab:
        return COSTLY_REP_STOS;
    default:
        return COSTLY_NONE;
    }
}

static enum ktax_costly kind_of_one_byte(const struct opcode *op)
{
    if (op->is_repeat && repeated(op) != COSTLY_NONE) {
        return repeated(op);
    }
    if ((op->bytes[0] & 0xfc) == 0x6c || (op->bytes[0] & 0xf4) == 0xe4) {
        return COSTLY_PORT; /* ins, outs; in, out */
    }
    switch (op->bytes[0]) {
    case 0x86:
    case 0x87:
        return is_memory(op) ? COSTLY_LOCKED : COSTLY_NONE;
    case 0x90:
        return op->is_repeat ? COSTLY_PAUSE : COSTLY_NONE;
    case 0x9d:
    case 0xfa:
    case 0xfb:
        return COSTLY_INTERRUPT_FLAG;
    case 0xcc:
    case 0xcd:
        return COSTLY_INT;
    case 0xcf:
        return COSTLY_IRET;
    case 0xf4:
        return COSTLY_HLT;
    case 0xff:
        return reg(op) == 2 || reg(op) == 4 ? COSTLY_INDIRECT : COSTLY_NONE;
    default:
        return COSTLY_NONE;
    }
}

enum ktax_costly ktax_costly_of(const uint8_t *bytes, size_t size)
{
    struct opcode op = parse(bytes, size);

    if (op.is_lock) {
        return COSTLY_LOCKED;
    }
    return op.bytes[0] == 0x0f ? behind_0f(&op) : kind_of_one_byte(&op);
}

bool ktax_is_control_write(const uint8_t *bytes, size_t size)
{
    struct opcode op = parse(bytes, size);

    return op.bytes[0] == 0x0f && op.bytes[1] == 0x22 && control(&op) == COSTLY_SERIALIZING;
}

const char *ktax_costly_name(enum ktax_costly kind)
{
    return names[kind];
}
