/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A model of a machine: caches, translation of addresses, prediction of branches. It counts what
 * such a machine might wait for, by function and context. No time follows from it.
 *
 * Code and data go through caches of their own, what misses there through the second one, and then
 * through the last one if there is a third. Lines have 64 bytes and physical addresses, and a store
 * uses a line as a load does. Not modelled are prefetching, writing back, and what is speculative.
 */
#ifndef KTAX_MACHINE_H
#define KTAX_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "caches.h"
#include "qemu_api.h"

/* Whether the model was asked for. */
extern bool ktax_machine;

/* Reads the file of docs/wire.md. On failure prints what to do and returns false. */
bool ktax_machine_load(const char *path);

/* Of code, of data, behind both, and behind that if there are three levels. */
enum { CACHE_CODE, CACHE_DATA, CACHE_SECOND, CACHE_LAST, CACHE_COUNT };
extern struct ktax_cache ktax_caches[CACHE_COUNT];

/* What the CPU forgets at an instruction, or may find elsewhere from then on. */
enum ktax_forgets {
    FORGETS_NOTHING,
    FORGETS_ADDRESSES, /* where one page is */
    FORGETS_USER,      /* user space */
    FORGETS_BY_ENTRY,  /* all, at a load of CR3 by which the kernel isolates page tables */
    FORGETS_ALL,
};

/* Calls for the lines of an instruction's code, and for each access of it. */
void ktax_machine_watch(struct qemu_plugin_insn *insn, bool is_first, int slot,
                        enum ktax_forgets forgets);

/* Why not all could be modelled, or NULL. */
const char *ktax_machine_split_failed(void);

#endif
