/* SPDX-License-Identifier: MIT */
/* Sockets of 127.0.0.1, at ports that the kernel chooses; what does not succeed ends in fail(). */
#ifndef KTAX_LOOPBACK_H
#define KTAX_LOOPBACK_H

#include <netinet/in.h>

int loopback_bound(int type, struct sockaddr_in *at); /* `at` becomes its address */
int loopback_connected(int type, const struct sockaddr_in *to);
void loopback_tcp(int ends[2]); /* the two ends of one connection */

#endif
