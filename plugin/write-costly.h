/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lines of a profile that say which costly instructions its functions executed. */
#ifndef KTAX_WRITE_COSTLY_H
#define KTAX_WRITE_COSTLY_H

#include <stdio.h>

#include "region.h"

/* Those of a region. False: there is not enough memory. */
bool ktax_write_costly(FILE *file, const struct ktax_region *region,
                           const char *const *contexts);

#endif
