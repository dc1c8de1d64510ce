/* SPDX-License-Identifier: MIT */
/* Programs of the user's: their root directories, tracing, and the sandbox. */
#ifndef KTAX_PROGRAM_H
#define KTAX_PROGRAM_H

#include "ktax.h"

/*
 * rooted.c: a program in a root directory of its own, as the host packs it (docs/wire.md,
 * Programs): lists of words, each with a NUL behind it, beside the directory root/, in which it
 * starts in /work. What returns a bool or a pointer sets errno where it returns false or NULL.
 * Natively there is no root directory: the program runs where it is, as the user who runs ktax.
 */
#define ROOTED_ROWS "/program/rows" /* of all rows that are no programs */
#define ROOTED_SIDE "/program/side" /* the set-up of one side */
#define DISK_TMP "/disk/tmp"        /* exists if there is a disk */

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
bool rooted_files(struct rooted *r);         /* standard input, output and error */
bool rooted_empty(const struct rooted *r);   /* the output, before a run */
bool rooted_enter(const struct rooted *r, uid_t user); /* in a child that exec follows */
/* Runs a list, and returns its status from waitpid(); -1 if it could not be executed. */
int rooted_run(const struct rooted *r, const char *name);
bool rooted_is_full(const struct rooted *r); /* it printed too much */
/* NULL if the program ended with the status `wanted`, else how it ended. */
const char *rooted_wrong(int status, uint64_t wanted);
/* Sends what it printed to the host: the beginning and the end of a long text. */
void rooted_print(const struct rooted *r);
/* The last words on its standard error, on one line. */
const char *rooted_last_words(const struct rooted *r);
/* Runs the hook `prepare` of a program, before each run; its failure is that of the order. */
void hooks_prepare(const struct rooted *r);

/*
 * tracer.c: a program under ptrace. trace_begin() is called in the child, before it becomes the
 * program. True: the program ended by itself, and `ended` is its status from waitpid().
 */
void trace_begin(void);
/* Sends each system call, and each reading of the time-stamp counter, to the host. */
void trace_calls_begin(void);
bool trace_calls(pid_t program, int *ended);
/*
 * Sends each file that the program and its children name, as `opened`, `executed` or `missing`,
 * with its path below `root`.
 */
bool trace_files(pid_t program, const char *root, int *ended);

/*
 * sandbox.c: goes on in a new process, in namespaces of its own, in which a program may do what it
 * likes: it sees the files of this machine, and what it writes is in memory and goes with it. There
 * is no network but loopback, and no other process. The current directory is also /work, and the
 * process is there. The program runs as `user`; `scratch` is an empty directory.
 */
void sandbox_enter(const char *scratch, uid_t user);

#endif
