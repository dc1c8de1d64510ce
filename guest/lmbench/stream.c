/* SPDX-License-Identifier: MIT */
/*
 * A child writes 64 KiB at a time, this process reads them. Each KiB of the 64 begins with its
 * number, so that one that is lost, doubled or out of order is noticed.
 */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bandwidth.h"

enum { PIECE = PIECE_KIB * KIB, NUMBERS = KIB / sizeof(uint64_t) };

static int in;
static uint64_t *received, seen;

static __attribute__((noreturn)) void write_for_ever(int fd, const uint64_t *piece)
{
	signal(SIGPIPE, SIG_IGN); /* the end is an error of write() */
	while (syscall(SYS_write, fd, piece, PIECE) > 0)
		;
	_exit(errno != EPIPE && errno != ECONNRESET);
}

static uint64_t receive(uint64_t kib)
{
	uint64_t right = 0;

	for (size_t got = 0, want = kib * KIB; got < want;) {
		long n = syscall(SYS_read, in, (char *)received + got, want - got);
		if (n <= 0)
			return 0;
		got += n;
	}
	for (uint64_t k = 0; k < kib; k++)
		right += received[k * NUMBERS] == seen++ % PIECE_KIB;
	return right;
}

void stream(const struct order *o, int from, int to)
{
	const uint64_t warm_up = MIB_KIB; /* TCP's windows have grown by then */
	uint64_t *piece = (uint64_t *)pages(PIECE / PAGE);
	pid_t writer;

	for (uint64_t k = 0; k < PIECE_KIB; k++)
		piece[k * NUMBERS] = k;
	received = (uint64_t *)(pages(PIECE / PAGE + 1) + 128); /* on no page boundary */
	in = from;
	writer = worker();
	if (writer < 0)
		fail("clone");
	if (!writer) {
		close(from);
		write_for_ever(to, piece);
	}
	close(to);
	bandwidth(o, warm_up, PIECE_KIB, receive, "kib");
	close(from);
	sig("children", child_succeeded(writer));
}
