/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The model's prediction of branches. Whether a conditional branch is taken is predicted by its
 * address and the last ones (gshare, counters of two bits); where an indirect one goes, by the
 * same; where a return goes, by a stack of the last calls. A jump or call whose target is in its
 * bytes is always predicted. Of how real predictors work makers say little: these are textbook
 * ones.
 */
#ifndef KTAX_BRANCHES_H
#define KTAX_BRANCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "qemu_api.h"
#include "rounds.h"

struct ktax_branches_size {
    uint32_t history; /* how many branches are remembered */
    uint32_t table;   /* two to this power counters, and as many targets */
    uint32_t returns; /* calls that are remembered */
};

enum { MOST_RETURNS = 64, MOST_TABLE = 24 };

/* False: there is not enough memory. */
bool ktax_branches_make(const struct ktax_branches_size *size);

bool ktax_branches_are_there(void);

/* Is something missing, since there was not enough memory? */
bool ktax_branches_full(void);

/* Looks where the branch at the end of a block goes: its last instruction, of that slot. */
void ktax_branches_watch(struct qemu_plugin_tb *tb, const struct qemu_plugin_insn *end, int slot);

/* In machine.c: a branch of that slot was executed. */
HOOK void ktax_machine_branch(int slot, bool is_missed);

#endif
