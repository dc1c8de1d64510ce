/* SPDX-License-Identifier: MIT */
#ifndef KTAX_CACHED_H
#define KTAX_CACHED_H

#include <stdint.h>

/*
 * A file of `n` 4 KiB pages, the first `cached` of which are in the page cache. It is a memfd: a
 * file of the kernel's own tmpfs, so that $TMPDIR does not matter, and without large folios.
 */
int cached_file(uint64_t n, uint64_t cached);

#endif
