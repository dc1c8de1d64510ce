/* SPDX-License-Identifier: GPL-2.0-or-later */
/* QEMU's main thread, which moves the clock where all vCPUs are idle. */
#ifndef KTAX_MAIN_THREAD_H
#define KTAX_MAIN_THREAD_H

/*
 * Waits until the main thread waits for events, of which there can be none until a vCPU says that
 * all are idle.
 *
 * Call it before a vCPU halts, which may be the last one. QEMU marks the vCPU as idle a moment
 * before the clock has what it executed. If the main thread, woken before and delayed by the host,
 * looks at the clock in this moment, the clock jumps by so much too far.
 */
void ktax_main_thread_wait(void);

#endif
