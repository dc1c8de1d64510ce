/* SPDX-License-Identifier: MIT */
/* The job that is shaped like a compilation; its files are below the working directory. */
#ifndef KTAX_BUILD_H
#define KTAX_BUILD_H

#include "ktax.h"

enum {
	SEARCHED = 4,         /* include directories; every header is in the last */
	HEADER_KIB = 30,      /* the largest header */
	LISTING = 60 << 10,   /* bytes that cc1 writes */
	OBJECT = 40 << 10,    /* bytes that as makes of them */
	CC1_PAGES = 256,      /* 4 KiB pages that each touches for a MiB of `heap` */
	AS_PAGES = 38,
	PATH_BYTES = 64,
	JOBS_MAX = 64,
};

/* What a process of the job is executed with: strings, from UNIT on decimal numbers. */
enum { ROLE_NAME, PROGRAM, UNIT, HEADERS, HEAP, BURN, ARGUMENTS };

/* How each listing and each object begins: what its unit did. */
struct evidence { uint64_t units, headers, missed, bytes, pages, hash; };

/* build-tree.c */
extern const char *const build_include[SEARCHED];
void build_tree(uint64_t headers);
void build_cold(uint64_t headers); /* out of the page cache, as far as that is ours to do */

/* build-file.c */
const char *build_path(char *to, const char *before, uint64_t n, const char *after);
bool build_write(const char *name, const void *from, size_t size);
bool build_read(const char *name, void *to, size_t size);
void build_fill(void *to, size_t size, uint64_t seed);
uint64_t build_hash(uint64_t hash, const void *from, size_t size);

/* build-cc1.c */
uint64_t build_grow(uint64_t pages); /* the heap; how many of them it got and touched */

/* build-make.c */
extern struct build { uint64_t jobs, headers; } build;
void build_configure(const struct order *o);
bool build_run(uint64_t units); /* the same instructions each time */

/* build-job.c */
void build_prepare(const struct order *o); /* in the scratch directory, with a warm-up */
void build_say(bool made);

#endif
