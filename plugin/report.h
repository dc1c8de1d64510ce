/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writes the profile of docs/wire.md. */
#ifndef KTAX_REPORT_H
#define KTAX_REPORT_H

#include <stdbool.h>

/* Creates the file; it must not exist. On failure prints what to do and returns false. */
bool ktax_report_open(const char *path);
void ktax_report_write(void);

#endif
