/* SPDX-License-Identifier: MIT */
/*
 * Rows in which one operation is one KiB. They move it in larger pieces; only the last piece is
 * smaller, where ops is no multiple.
 */
#ifndef KTAX_BANDWIDTH_H
#define KTAX_BANDWIDTH_H

#include "ktax.h"

enum { KIB = 1024, KIB_INTS = KIB / 4, PIECE_KIB = 64, MIB_KIB = 1024 };

/*
 * move() takes the KiB of one piece and returns what proves that they were moved, 0 on failure;
 * the sum of it over the Region is the signature `proof`.
 */
void bandwidth(const struct order *o, uint64_t warm_up, uint64_t piece,
	       uint64_t (*move)(uint64_t kib), const char *proof);

/* The ints of each KiB are 1 to 256, beginning with another one in each. */
void fill_kib(uint32_t *at, uint64_t kib);
uint64_t sum_kib(const uint32_t *at, uint64_t kib); /* loads and adds every int */
uint32_t *filled_kib(uint64_t kib);                 /* new 4 KiB pages with them */
int filled_file(uint64_t kib);                      /* a memfd, which is on tmpfs everywhere */

/* stream.c: a process writes to `to` for ever, this one reads `from` */
void stream(const struct order *o, int from, int to);

/* The loops over ints are unrolled to 512 bytes and stay what they say: see bandwidth.c. */
#define UNROLLED _Pragma("GCC unroll 128")

#endif
