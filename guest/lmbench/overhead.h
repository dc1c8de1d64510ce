/* SPDX-License-Identifier: MIT */
/*
 * What the original subtracts from its result, each operation, as the value "overhead-ns". Here
 * it is printed beside a result that contains it, and only where there is a clock. After
 * the Region.
 */
#ifndef KTAX_OVERHEAD_H
#define KTAX_OVERHEAD_H

#include "ktax.h"

void overhead(const struct order *o, int (*op)(void));

#endif
