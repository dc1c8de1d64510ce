/* SPDX-License-Identifier: MIT */
/* Threads with small stacks, CPU pinning and resource limits, for workloads with many workers. */
#ifndef KTAX_TEAM_H
#define KTAX_TEAM_H

#include <pthread.h>

#include "ktax.h"

enum { TEAM_MAX = 512 };

/* Fails where there can be no more threads. */
pthread_t team_thread(void *(*run)(void *), void *argument);

void team_start(unsigned n, void (*work)(unsigned member)); /* members 0 to n - 1 */
void team_join(void);                                       /* waits for the end of all */

unsigned team_cpus(void);       /* how many CPUs this process may run on */
void team_pin(unsigned member); /* pins the caller to one of them, members in turn */

/* Raises a soft limit to its hard limit; fails if it cannot reach `wanted`. */
void raise_limit(int resource, uint64_t wanted, const char *name);

#endif
