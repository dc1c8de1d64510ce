/* SPDX-License-Identifier: MIT */
/* crowd.c: children that are all alive at once. Both return how many did not succeed. */
#ifndef CROWD_H
#define CROWD_H

#include <stdint.h>

void crowd_of(uint64_t most);
uint64_t crowd_begin(uint64_t n); /* n children, which do nothing but wait */
uint64_t crowd_end(uint64_t n);   /* lets them go, and reaps all n */

#endif
