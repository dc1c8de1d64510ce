/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "decode.h"

#include <stdbool.h>
#include <string.h>

static bool is(const uint8_t *bytes, size_t size, const char *start, size_t length, size_t whole)
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
    if (is(bytes, size, "\x48\xcf", 2, 2)) {
        return KIND_IRETQ;
    }
    if (is(bytes, size, "\x48\x0f\x07", 3, 3) || is(bytes, size, "\x0f\x07", 2, 2)) {
        return KIND_SYSRET;
    }
    if (is(bytes, size, "\x48\x89\xa7", 3, 7)) {
        return KIND_SAVE_STACK;
    }
    if (is(bytes, size, "\x48\x8b\xa6", 3, 7)) {
        return KIND_LOAD_STACK;
    }
    if (is(bytes, size, "\x0f\x1f\x80\x01\x00\x54\x4b", 7, 7)) {
        return KIND_REGION_BEGIN;
    }
    if (is(bytes, size, "\x0f\x1f\x80\x02\x00\x54\x4b", 7, 7)) {
        return KIND_REGION_END;
    }
    if (is(bytes, size, "\x0f\x1f\x80\x03\x00\x54\x4b", 7, 7)) {
        return KIND_SLICES_BEGIN;
    }
    if (is(bytes, size, "\xf3\x90", 2, 2) || is(bytes, size, "\x0f\x01\xc9", 3, 3)) {
        return KIND_PAUSE;
    }
    if (is(bytes, size, "\xf4", 1, 1)) {
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
