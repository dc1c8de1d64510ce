/* SPDX-License-Identifier: MIT */
#ifndef KTAX_COPY_H
#define KTAX_COPY_H

#include <stdbool.h>

/*
 * Copies a directory with all that it has, to a path where nothing is: files, links and
 * directories, with owner, mode and times. False: errno says why.
 */
bool copy_tree(const char *from, const char *to);

#endif
