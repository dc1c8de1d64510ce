/* SPDX-License-Identifier: MIT */
#ifndef BACKING_H
#define BACKING_H

#include <stdint.h>

enum backing { ANONYMOUS, THP, SHARED_FILE, HUGETLB, SHARED_HUGETLB };

/* backing.c: makes n 4 KiB pages of a kind resident, and returns how many faults that took. */
uint64_t backing_fill(enum backing kind, uint64_t n);

/* Writes to each of them once more, in whatever process. */
void backing_touch(void);

#endif
