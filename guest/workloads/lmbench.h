/* SPDX-License-Identifier: MIT */
/* Functions that several files of lmbench use. */
#ifndef KTAX_LMBENCH_H
#define KTAX_LMBENCH_H

#include <netinet/in.h>

#include "ktax.h"

/*
 * lmbench-calls.c: what the original subtracts from its result, each operation, as the value
 * "overhead-ns". Here it is printed beside a result that contains it, and only where there is a
 * clock. After the Region.
 */
void overhead(const struct order *o, int (*op)(void));

/*
 * lmbench-processes.c: sockets of 127.0.0.1, at ports that the kernel chooses; what does not
 * succeed ends in fail().
 */
int loopback_bound(int type, struct sockaddr_in *at); /* `at` becomes its address */
int loopback_connected(int type, const struct sockaddr_in *to);
void loopback_tcp(int ends[2]); /* the two ends of one connection */

/*
 * lmbench-memory.c: rows in which one operation is one KiB. They move it in larger pieces; only the
 * last piece is smaller, where ops is no multiple. move() takes the KiB of one piece and returns
 * what proves that they were moved, 0 on failure; the sum of it over the Region is the signature
 * `proof`.
 */
enum { KIB = 1024, KIB_INTS = KIB / 4, PIECE_KIB = 64, MIB_KIB = 1024 };
void bandwidth(const struct order *o, uint64_t warm_up, uint64_t piece,
	       uint64_t (*move)(uint64_t kib), const char *proof);

#endif
