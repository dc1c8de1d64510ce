/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where code is in the guest's memory. */
#ifndef KTAX_CODE_H
#define KTAX_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "qemu_api.h"

struct ktax_place {
    uint64_t address;
    uint64_t physical; /* from 1; 0: not known, as of what is on another page */
};

struct ktax_place ktax_place_of(const struct qemu_plugin_insn *insn);

/* So many bytes behind it. */
struct ktax_place ktax_place_behind(const struct ktax_place *place, int64_t bytes);

static inline bool ktax_is_same_place(const struct ktax_place *one, const struct ktax_place *other)
{
    return one->physical && other->physical ? one->physical == other->physical
                                            : one->address == other->address;
}

#endif
