/* SPDX-License-Identifier: MIT */
/* Jobs that send messages of cycling sizes to themselves: each is written, then read. */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jobs.h"

#define SMALL_TO_LARGE 1, 3, 5, 7, 16, 32, 64, 512, 1024, 2048, 4096

size_t message_size(void)
{
	static const unsigned short sizes[] = {
		SMALL_TO_LARGE, SMALL_TO_LARGE, 32, 32, 32, 32, 32, 32,
		512, 512, 512, 512, 512, 2048, 2048, 2048, 2048,
	};

	return sizes[(*job_cycle)++ % (sizeof(sizes) / sizeof(sizes[0]))];
}

const char *send_and_close(int to, int from, unsigned messages)
{
	static char sent[PAGE], got[PAGE];

	for (unsigned i = 0; i < messages; i++) {
		size_t size = message_size(), have = 0;
		sent[0] = i;
		if (syscall(SYS_write, to, sent, size) != (long)size)
			return "write";
		while (have < size) {
			long n = syscall(SYS_read, from, got + have, size - have);
			if (n <= 0)
				return "read";
			have += n;
		}
		if (got[0] != sent[0])
			return "message";
		*job_done += size;
	}
	return close(to) || close(from) ? "close" : NULL;
}

const char *pipe_cpy(void)
{
	int ends[2];

	if (pipe(ends))
		return "pipe";
	return send_and_close(ends[1], ends[0], 99);
}

static const char *pair(int type)
{
	int ends[2];

	if (socketpair(AF_UNIX, type, 0, ends))
		return "socketpair";
	return send_and_close(ends[0], ends[1], 99);
}

const char *stream_pipe(void)
{
	return pair(SOCK_STREAM);
}

const char *dgram_pipe(void)
{
	return pair(SOCK_DGRAM);
}
