/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the plugin thinks that a process is in the kernel, at instructions that are drawn at
 * random, with its registers and its stack: a test unwinds that in the kernel's own way.
 */
#ifndef KTAX_DRAW_H
#define KTAX_DRAW_H

#include "watch.h"

/* Writes to this new file. False: it cannot be made, or this QEMU shows no registers or memory. */
bool ktax_draw_open(const char *path);

/* Call it when the vCPU exists. */
void ktax_draw_start(void);

/* May draw the instruction, if a file is open. Register what moves the vCPU before. */
void ktax_draw_watch(const struct ktax_insn *insn);

/* At the end. */
void ktax_draw_close(void);

#endif
