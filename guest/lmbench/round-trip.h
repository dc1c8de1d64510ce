/* SPDX-License-Identifier: MIT */
/* One byte there and back between this process and a child that echoes. */
#ifndef KTAX_ROUND_TRIP_H
#define KTAX_ROUND_TRIP_H

#include "ktax.h"

/* This process writes to `to` and reads from `from`, the child reads `in` and writes `out`. */
struct round_trip { int to, from, in, out; };

void round_trips(const struct order *o, struct round_trip ends); /* the whole workload */

#endif
