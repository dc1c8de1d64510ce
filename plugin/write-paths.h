/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lines of a profile that say from where functions were called. */
#ifndef KTAX_WRITE_PATHS_H
#define KTAX_WRITE_PATHS_H

#include <stdio.h>

#include "paths.h"

/* Those that a region executed. False: there is not enough memory. */
bool ktax_write_paths(FILE *file, const struct ktax_region *region, const char *const *contexts);

#endif
