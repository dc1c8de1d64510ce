/* SPDX-License-Identifier: MIT */
/* What a program does before the host takes a Snapshot, in a guest and in a KVM host alike. */
#ifndef KTAX_FREEZE_H
#define KTAX_FREEZE_H

/*
 * quiet.c: returns when the kernel is idle, or after five seconds. Then it calls `busy` for the
 * tasks that still ran.
 */
void quiet(void (*busy)(const char *task));

/* standstill.c: the host stops the machine here; the caller may use ports */
void standstill(void);

#endif
