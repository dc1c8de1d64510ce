/* SPDX-License-Identifier: MIT */
/* One worker of messaging.c: a process or a thread that sends, or one that receives. */
#ifndef KTAX_MESSENGER_H
#define KTAX_MESSENGER_H

#include <pthread.h>

#include "ktax.h"

enum { FDS_MAX = 100, BYTES_MAX = 4096 };

/* The same for all; set before the first is started. */
extern struct messaging {
	uint64_t rounds, fds, bytes;
	bool pipes, threads;
	int ready[2], wake[2];
} messaging;

/* In memory that all workers share. */
struct messenger {
	bool sends;
	const int *fd; /* to send, one for each receiver; to receive, the only one */
	uint64_t messages, checksum, end;
	pid_t pid;
	pthread_t thread;
} __attribute__((aligned(64)));

void messenger_channel(int fd[2]); /* as pipe() */

/* A process first closes the write ends that it has inherited: they would hide an end of file. */
void messenger_start(struct messenger *m, const int *inherited, uint64_t count);
bool messenger_succeeded(const struct messenger *m); /* waits */

#endif
