/* SPDX-License-Identifier: MIT */
/* tracer.c: runs a program under ptrace, and calls for each system call of all its tasks. */
#ifndef KTAX_TRACER_H
#define KTAX_TRACER_H

#include "ktax.h"

/* A thread or a process of the traced program. */
struct task {
	pid_t pid;
	bool has_begun;
	uint64_t number, arguments[6]; /* of the system call that it is in */
	char *path; /* what that call names; for opened.c */
};

struct tracer {
	void (*enter)(struct task *task);
	void (*leave)(struct task *task, int64_t result);
	bool (*fault)(struct task *task); /* SIGSEGV: true if the program is not to see it */
	bool (*is_full)(void);            /* whether the run is to be ended before its end */
	bool reuses_tasks; /* the place of a task that has ended is used again */
};

void tracer_begin(void); /* in the child, before it becomes the program */

/* True: it came to its end, `ended` is what waitpid() says of it. */
bool tracer_run(pid_t program, const struct tracer *tracer, int *ended);

unsigned tracer_index(const struct task *task); /* in the order in which tasks began */

#endif
