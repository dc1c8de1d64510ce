/* SPDX-License-Identifier: MIT */
/*
 * Groups of senders and receivers: every sender has a channel to every receiver of its group, and
 * sends each of them one message in a round. The Region lasts from the byte that wakes all workers
 * until all have ended, their exits included.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "messenger.h"
#include "nanoseconds.h"
#include "team.h"

struct group { int in[FDS_MAX], out[FDS_MAX]; };

/* Receivers first; a process keeps no end that is another's. */
static void start_group(struct group *g, struct messenger *m)
{
	const uint64_t fds = messaging.fds;
	int fd[2];

	for (uint64_t i = 0; i < fds; i++, m++) {
		messenger_channel(fd);
		g->in[i] = fd[0];
		g->out[i] = fd[1];
		m->fd = &g->in[i];
		messenger_start(m, g->out, i + 1);
		if (!messaging.threads)
			close(fd[0]);
	}
	for (uint64_t i = 0; i < fds; i++, m++) {
		m->fd = g->out;
		m->sends = true;
		messenger_start(m, NULL, 0);
	}
	for (uint64_t i = 0; i < fds && !messaging.threads; i++)
		close(g->out[i]);
}

/* How many have said so. */
static uint64_t hear_that_ready(uint64_t workers)
{
	char bytes[4096];
	uint64_t there = 0;
	ssize_t n;

	while (there < workers && (n = read(messaging.ready[0], bytes, sizeof(bytes))) > 0)
		there += n;
	if (there < workers)
		fail("a worker that is ready");
	return there;
}

static void messaging_run(const struct order *o)
{
	uint64_t groups = param(o, "groups", 1), fds = param(o, "fds", 20), of_group = 2 * fds;
	uint64_t workers = groups * of_group, there, failed, begin, end = 0;
	uint64_t messages[2] = { 0 }, checksum[2] = { 0 }; /* received, sent */
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_ANONYMOUS;
	struct messenger *all = mmap(NULL, workers * sizeof(*all), prot, flags, -1, 0), *m;
	struct group *group = calloc(groups, sizeof(*group));

	if (all == MAP_FAILED || !group)
		fail("memory");
	messaging.rounds = o->ops;
	messaging.fds = fds;
	messaging.bytes = param(o, "bytes", 100);
	messaging.pipes = param(o, "channel", 0);
	messaging.threads = param(o, "workers", 0);
	errno = EINVAL;
	if (fds > FDS_MAX || messaging.bytes > BYTES_MAX)
		fail("fds or bytes");
	raise_limit(RLIMIT_NPROC, 0, "RLIMIT_NPROC");
	raise_limit(RLIMIT_NOFILE, (messaging.threads ? workers : 0) + 256, "RLIMIT_NOFILE");
	messenger_channel(messaging.ready);
	messenger_channel(messaging.wake);
	for (uint64_t i = 0; i < groups; i++)
		start_group(&group[i], &all[i * of_group]);
	there = hear_that_ready(workers);
	region_begin();
	begin = nanoseconds();
	failed = write(messaging.wake[1], "", 1) != 1;
	for (m = all; m < all + workers; m++)
		failed += !messenger_succeeded(m);
	region_end();
	for (m = all; m < all + workers; m++) {
		messages[m->sends] += m->messages;
		checksum[m->sends] += m->checksum;
		end = m->end > end ? m->end : end;
	}
	sig("messages", messages[0]);
	sig("other-than-sent", checksum[0] != checksum[1]);
	sig("workers", there);
	sig("failed", failed);
	if (!counted)
		value("last-message-us", (end - begin) / 1000);
}

WORKLOAD("messaging", messaging_run);
