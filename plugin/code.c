/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * QEMU tells where code is only in its own memory. The guest's is in one piece there, and the
 * kernel's code is linked to where it is loaded: the first instruction of it says where that piece
 * begins.
 */
#include "code.h"

#define KERNEL_IMAGE UINT64_C(0xffffffff80000000)

enum { PAGE_SHIFT = 12 };

static const char *memory; /* the guest's, in QEMU */

struct ktax_place ktax_place_of(const struct qemu_plugin_insn *insn)
{
    struct ktax_place place = { .address = qemu_plugin_insn_vaddr(insn) };
    const char *at = qemu_plugin_insn_haddr(insn);

    if (!memory && at && place.address >= KERNEL_IMAGE) {
        memory = at - (place.address - KERNEL_IMAGE);
    }
    place.physical = at && memory ? (uint64_t)(at - memory) + 1 : place.address + 1;
    return place;
}

struct ktax_place ktax_place_behind(const struct ktax_place *place, int64_t bytes)
{
    uint64_t address = place->address + (uint64_t)bytes;
    bool is_near = address >> PAGE_SHIFT == place->address >> PAGE_SHIFT;

    return (struct ktax_place){ address, is_near ? place->physical + (uint64_t)bytes : 0 };
}
