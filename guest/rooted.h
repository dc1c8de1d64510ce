/* SPDX-License-Identifier: MIT */
/*
 * A program in a root directory of its own, as the host packs it (docs/wire.md, Programs): lists of
 * words, each with a NUL behind it, beside the directory root/, in which it starts in /work. What
 * returns a bool or a pointer sets errno where it returns false or NULL. Natively there is no root
 * directory: the program runs where it is, as whom ktax runs.
 */
#ifndef KTAX_ROOTED_H
#define KTAX_ROOTED_H

#include "ktax.h"

#define ROOTED_ROWS "/program/rows" /* of all rows that are no programs */
#define ROOTED_SIDE "/program/side" /* the set-up of one side */
#define DISK_TMP "/disk/tmp"        /* is there where there is a disk */

enum { OUTPUT_MIB = 32 };

struct rooted {
	char directory[200], root[208];
	char **environment;
	int input, output, errors;
};

bool rooted_exists(const char *directory, const char *name);
bool rooted_open(struct rooted *r, const char *directory);
/* The words of a list, with NULL behind them: the path to execute, then the arguments. */
char **rooted_words(const struct rooted *r, const char *name);
/* Before the Snapshot: the kernel's file systems; /tmp and /work on the disk if there is one. */
bool rooted_mount(const struct rooted *r);
/* Sets the clock to that of the list `clock`, if it is behind: no file is from the future. */
void rooted_clock(const struct rooted *r);
bool rooted_files(struct rooted *r);         /* standard input, output and error */
void rooted_close(const struct rooted *r);
bool rooted_empty(const struct rooted *r);   /* the output, before a run */
bool rooted_enter(const struct rooted *r, uid_t user); /* in a child that exec follows */
/* Runs a list, and returns what waitpid() says of it; -1 if it could not be executed. */
int rooted_run(const struct rooted *r, const char *name);

bool rooted_is_full(const struct rooted *r); /* it printed too much */
/* What is wrong if it ended like this and `wanted` is the right status, else NULL. */
const char *rooted_wrong(int status, uint64_t wanted);
/* Sends what it printed to the host: of a long text the beginning and the end. */
void rooted_print(const struct rooted *r);
/* The last words on its standard error, on one line. */
const char *rooted_last_words(const struct rooted *r);

#endif
