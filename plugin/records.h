/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory for what callbacks are told, which is kept as long as QEMU runs. Most of it is read each
 * time a block of code is executed, so it is where the host needs few translations.
 */
#ifndef KTAX_RECORDS_H
#define KTAX_RECORDS_H

#include <stddef.h>

/* Zeroed, in lines of the host's cache of its own. NULL: there is not enough memory. */
void *ktax_record(size_t bytes);

#endif
