/* SPDX-License-Identifier: MIT */
/*
 * The order for the guest of a board, KIND=ROUNDS [phase=N]: what it does, how often, and how long
 * the host waits before it.
 */
#ifndef RAW_H
#define RAW_H

#include "host.h"

/* In the guest's memory: its code, and the first of the pages that it has not touched. */
enum { MEMORY = 64 << 20, CODE = 0x10000, FIRST_PAGE = 1 << 20 };
/* A device that nobody has; the guest's last store is to END. */
enum { DEVICE = 0x10000000, END = DEVICE + 4 };

/* A way to leave the guest: its name in orders, and the guest's code for it. */
struct kind {
	const char *name;
	const unsigned char *code;
};

/* The parts of a board's guest. */
struct board {
	const struct kind *kinds; /* the last has no name */
	const unsigned char *code, *code_end;
	uint64_t memory; /* its address */
	unsigned page; /* its size */
};

/* A guest with its code in memory, and its order. */
struct raw {
	struct guest guest;
	uint64_t pc; /* where the order's kind begins */
	const struct kind *kind;
	unsigned rounds;
	unsigned long phase;
};

/* The guest for the order in the arguments. Goes off where it has fewer pages than rounds. */
struct raw raw_create(int argc, char **argv, const struct board *board);
/* Sets a register that KVM knows by this number. */
void raw_set(const struct raw *raw, uint64_t id, uint64_t value);
/* Waits for a quiet host, and for the order's phase. */
void raw_wait(const struct raw *raw);
/* Waits, runs the guest, and shows the events of KVM and of the scheduler. */
void raw_trace(const struct raw *raw);

#endif
