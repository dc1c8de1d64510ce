/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "costly.h"

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

static bool is_memory(const struct opcode *of)
{
    return of->has_modrm && of->modrm >> 6 != 3;
}

static int reg(const struct opcode *of)
{
    return of->has_modrm ? of->modrm >> 3 & 7 : -1;
}

static struct opcode parse(const uint8_t *bytes, size_t size)
{
    struct opcode of = { 0 };
    size_t i = 0;

    for (; i < size; i++) {
        uint8_t byte = bytes[i];
        of.is_lock |= byte == 0xf0;
        of.is_repeat |= byte == 0xf2 || byte == 0xf3;
        of.is_operand_size |= byte == 0x66;
        bool is_prefix = byte == 0xf0 || byte == 0xf2 || byte == 0xf3 ||
                         (byte & 0xfc) == 0x64 || (byte & 0xe7) == 0x26;
        if (!is_prefix) {
            break;
        }
    }
    if (i < size && (bytes[i] & 0xf0) == 0x40) {
        of.is_extended = bytes[i++] & 4; /* REX comes last */
    }
    for (size_t k = 0; k < 3 && i + k < size; k++) {
        of.bytes[k] = bytes[i + k];
    }
    size_t modrm = i + (of.bytes[0] == 0x0f ? 2 : 1);
    of.has_modrm = modrm < size;
    of.modrm = of.has_modrm ? bytes[modrm] : 0;
    return of;
}

/* 0F 01: by what the second byte addresses. */
static enum ktax_costly group_01(const struct opcode *of)
{
    if (is_memory(of)) {
        return reg(of) == 7 ? COSTLY_INVLPG : COSTLY_NONE;
    }
    switch (of->modrm) {
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
static enum ktax_costly group_ae(const struct opcode *of)
{
    if (!is_memory(of)) {
        bool is_plain = !of->is_repeat && !of->is_operand_size;
        return reg(of) >= 5 && is_plain ? COSTLY_FENCE : COSTLY_NONE;
    }
    switch (reg(of)) {
    case 0:
    case 1:
    case 4:
    case 5:
        return COSTLY_XSAVE;
    case 6:
        return of->is_operand_size ? COSTLY_CLFLUSH : COSTLY_XSAVE;
    case 7:
        return COSTLY_CLFLUSH;
    default:
        return COSTLY_NONE;
    }
}

/* 0F C7: more saves and restores, and random numbers. */
static enum ktax_costly group_c7(const struct opcode *of)
{
    if (is_memory(of)) {
        return reg(of) >= 3 && reg(of) <= 5 ? COSTLY_XSAVE : COSTLY_NONE;
    }
    return reg(of) >= 6 && !of->is_repeat ? COSTLY_RDRAND : COSTLY_NONE;
}

/* Loads of control registers. CR8 is another register. */
static enum ktax_costly control(const struct opcode *of)
{
    if (of->is_extended) {
        return COSTLY_NONE;
    }
    if (reg(of) == 3) {
        return COSTLY_CR3_WRITE;
    }
    return reg(of) == 0 || reg(of) == 4 ? COSTLY_SERIALIZING : COSTLY_NONE;
}

static enum ktax_costly behind_0f(const struct opcode *of)
{
    switch (of->bytes[1]) {
    case 0x00:
        return reg(of) == 5 ? COSTLY_VERW : COSTLY_NONE;
    case 0x01:
        return group_01(of);
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
        return control(of);
    case 0x30:
        return COSTLY_WRMSR;
    case 0x32:
        return COSTLY_RDMSR;
    case 0x31:
    case 0x33:
        return COSTLY_RDTSC;
    case 0x38:
        return of->bytes[2] == 0x82 && of->is_operand_size ? COSTLY_INVPCID : COSTLY_NONE;
    case 0xae:
        return group_ae(of);
    case 0xc7:
        return group_c7(of);
    default:
        return COSTLY_NONE;
    }
}

static enum ktax_costly repeated(const struct opcode *of)
{
    switch (of->bytes[0]) {
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

static enum ktax_costly of_one_byte(const struct opcode *of)
{
    if (of->is_repeat && repeated(of) != COSTLY_NONE) {
        return repeated(of);
    }
    if ((of->bytes[0] & 0xfc) == 0x6c || (of->bytes[0] & 0xf4) == 0xe4) {
        return COSTLY_PORT; /* ins, outs; in, out */
    }
    switch (of->bytes[0]) {
    case 0x86:
    case 0x87:
        return is_memory(of) ? COSTLY_LOCKED : COSTLY_NONE;
    case 0x90:
        return of->is_repeat ? COSTLY_PAUSE : COSTLY_NONE;
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
        return reg(of) == 2 || reg(of) == 4 ? COSTLY_INDIRECT : COSTLY_NONE;
    default:
        return COSTLY_NONE;
    }
}

enum ktax_costly ktax_costly_of(const uint8_t *bytes, size_t size)
{
    struct opcode of = parse(bytes, size);

    if (of.is_lock) {
        return COSTLY_LOCKED;
    }
    return of.bytes[0] == 0x0f ? behind_0f(&of) : of_one_byte(&of);
}

bool ktax_is_control_write(const uint8_t *bytes, size_t size)
{
    struct opcode of = parse(bytes, size);

    return of.bytes[0] == 0x0f && of.bytes[1] == 0x22 && control(&of) == COSTLY_SERIALIZING;
}

const char *ktax_costly_name(enum ktax_costly kind)
{
    return names[kind];
}
