/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A model of cache coherence: each CPU has a private cache of lines of 64 bytes that never is full,
 * and a directory knows who has the present content of a line and who wrote it last (MESI; nothing
 * here asks whether a single holder has written). A transfer is an access to a line whose content
 * another CPU wrote, and that the own cache does not have, or not any more. What no CPU wrote comes
 * from memory and is none; nor is a write by who has the content, whoever else loses it by that.
 *
 * Seen are the loads and stores of instructions, by physical address. Not seen are fetches of code,
 * walks of page tables, and what the CPU itself writes when an interrupt or an exception begins.
 */
#ifndef KTAX_COHERENCE_H
#define KTAX_COHERENCE_H

#include "cpus.h"
#include "qemu_api.h"

/* The transfers of one region, by where the lines are. */
struct ktax_line {
    const char *kind;  /* data, percpu, heap, pages, vmalloc, user, other */
    const char *name;  /* symbols, or the function that moves it most */
    uint64_t offset;   /* of the line, from the first symbol */
    uint64_t count;
    uint64_t lines;    /* how many have this name */
};

struct ktax_lines {
    struct ktax_line *lines;
    size_t count;
    uint64_t transfers; /* counted apart */
};

/* Whether the model was asked for. */
extern bool ktax_coherence;

/* Calls for each access of an instruction of that slot, and if addresses may mean others then. */
void ktax_coherence_watch(struct qemu_plugin_insn *insn, int slot, bool remaps);

/* At the markers. False: there is not enough memory. */
void ktax_coherence_begin(void);
bool ktax_coherence_end(struct ktax_lines *to);

/* In context.c: an instruction of that slot got a line from another CPU. */
void ktax_context_transfer(int slot);

#endif
