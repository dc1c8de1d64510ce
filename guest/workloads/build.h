/* SPDX-License-Identifier: MIT */
/* The job of build.c, for loads beside it; its files are below the working directory. */
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

extern struct build { uint64_t jobs, headers; } build;

void build_prepare(const struct order *o); /* in the scratch directory, with a warm-up */
bool build_run(uint64_t units);            /* the same instructions each time */
void build_say(bool made);
void build_cold(uint64_t headers); /* out of the page cache, as far as that is ours to do */

bool build_write(const char *name, const void *from, size_t size);
bool build_read(const char *name, void *to, size_t size);

#endif
