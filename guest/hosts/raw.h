/* SPDX-License-Identifier: MIT */
/*
 * What the guest of a board is told to do: KIND=ROUNDS [phase=N]: what, how often, and how long
 * the host waits before it.
 */
#ifndef RAW_H
#define RAW_H

#include "host.h"

/* A way to leave the guest: its name in orders, and the guest's code for it. */
struct kind {
	const char *name;
	const unsigned char *code;
};

struct raw {
	const struct kind *kind;
	unsigned rounds;
	unsigned long phase;
};

/* The order in the arguments; the last of `kinds` has no name. */
struct raw raw_order(int argc, char **argv, const struct kind *kinds);
/* Goes off where the guest has fewer pages than the order's rounds. */
void raw_pages(const struct raw *order, unsigned pages);
/* Waits for a quiet host, and for the order's phase. */
void raw_wait(const struct raw *order);
/* Waits, runs the guest, and shows the events of KVM and of the scheduler. */
void raw_trace(const struct guest *guest, const struct raw *order, uint64_t end);

#endif
