/* SPDX-License-Identifier: MIT */
/* The eighteen jobs of high-systime, in jobs.c, and what a job finds of the user who does it. */
#ifndef KTAX_JOBS_H
#define KTAX_JOBS_H

#include "ktax.h"

enum { JOBS = 18 };

struct job {
	const char *name;
	unsigned weight;
	const char *(*run)(void); /* NULL, or the step that failed; errno says why */
};

extern const struct job jobs[JOBS];

/* Makes what the jobs need in the scratch directory: once, before there are users. */
void fixtures_prepare(bool sleep);

extern unsigned user_number;
extern int user_key;        /* of System V IPC */
extern uint64_t *job_done;  /* where the job counts what it did, in its own unit */
extern unsigned *job_cycle; /* where in the cycle of sizes its last message was */

#endif
