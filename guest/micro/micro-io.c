/* SPDX-License-Identifier: MIT */
/* 4096 bytes read from or written to a file of 1 MiB in memory, or sent through to oneself. */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "micro.h"

enum { BYTES = 4096, FILE_BYTES = 1 << 20, WARM_UP = FILE_BYTES / BYTES };

static int in, out;
static uint64_t done;
static char *buffer;

static int all(long n)
{
	done += n > 0 ? n : 0;
	return n != BYTES;
}

/* What goes on from where the last call ended begins again at the end of the file. */
static int begin_again(void)
{
	return done % FILE_BYTES == 0 && syscall(SYS_lseek, in, 0, SEEK_SET);
}

static int read_next(void)
{
	return begin_again() || all(syscall(SYS_read, in, buffer, BYTES));
}

static int write_next(void)
{
	return begin_again() || all(syscall(SYS_write, in, buffer, BYTES));
}

static int read_first(void)
{
	return all(syscall(SYS_pread64, in, buffer, BYTES, 0));
}

static int write_first(void)
{
	return all(syscall(SYS_pwrite64, in, buffer, BYTES, 0));
}

static int send_through(void)
{
	return syscall(SYS_write, out, buffer, BYTES) != BYTES ||
	       all(syscall(SYS_read, in, buffer, BYTES));
}

static int file(void)
{
	in = memory_file(0);
	for (int i = 0; i < WARM_UP; i++)
		if (in < 0 || write(in, buffer, BYTES) != BYTES)
			return 1;
	return 0;
}

static int a_pipe(void)
{
	int ends[2];

	if (pipe(ends))
		return 1;
	in = ends[0];
	out = ends[1];
	return 0;
}

static int sockets(void)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	in = ends[0];
	out = ends[1];
	return 0;
}

static void micro_io_run(const struct order *o)
{
	static const struct micro calls[] = {
		{ "read1", read_next, file, NULL },
		{ "write1", write_next, file, NULL },
		{ "pread1", read_first, file, NULL },
		{ "pwrite1", write_first, file, NULL },
		{ "pipe1", send_through, a_pipe, NULL },
		{ "unix1", send_through, sockets, NULL },
	};

	buffer = pages(1);
	MICRO(o, WARM_UP, calls);
	sig("bytes", done - WARM_UP * BYTES);
}

WORKLOAD("micro-io", micro_io_run);
