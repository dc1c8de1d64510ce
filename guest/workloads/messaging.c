/* SPDX-License-Identifier: MIT */
/*
 * Groups of senders and receivers: every sender has a channel to every receiver of its group, and
 * sends each of them one message in a round. The Region lasts from the byte that wakes all workers
 * until all have ended, their exits included. The calls are the C library's, as in the programs
 * that this is modelled on. The first byte of a message is the number of its round: the receivers
 * add up what the senders do.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools.h"

enum { FDS_MAX = 100, BYTES_MAX = 4096, WARM_UP = 2 }; /* rounds */

/* The parameters of all workers; set before the first is started. */
static struct {
	uint64_t rounds, fds, bytes;
	bool pipes, threads;
	int ready[2], wake[2];
} messaging;

/* A process or a thread that sends, or one that receives; in memory that all workers share. */
struct messenger {
	bool sends;
	const int *fd; /* to send, one for each receiver; to receive, the only one */
	uint64_t messages, checksum, end;
	pid_t pid;
	pthread_t thread;
} __attribute__((aligned(64)));

static void messenger_channel(int fd[2])
{
	if (messaging.pipes ? pipe(fd) : socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		fail("a channel");
}

static bool transfer(struct messenger *m, int fd, char *message)
{
	ssize_t n;

	for (uint64_t done = 0; done < messaging.bytes; done += n) {
		n = m->sends ? write(fd, message + done, messaging.bytes - done) :
			       read(fd, message + done, messaging.bytes - done);
		if (n <= 0)
			return false;
	}
	m->messages++;
	m->checksum += (unsigned char)message[0];
	return true;
}

static bool exchange(struct messenger *m, char *message, uint64_t rounds)
{
	m->messages = m->checksum = 0;
	for (uint64_t i = 0; i < rounds; i++) {
		if (m->sends)
			message[0] = i;
		for (uint64_t j = 0; j < messaging.fds; j++)
			if (!transfer(m, m->fd[m->sends ? j : 0], message))
				return false;
	}
	return true;
}

static bool run_messenger(struct messenger *m)
{
	struct pollfd wake = { .fd = messaging.wake[0], .events = POLLIN };
	char message[BYTES_MAX] = { 0 };
	bool done = exchange(m, message, WARM_UP) && write(messaging.ready[1], "", 1) == 1 &&
		    poll(&wake, 1, -1) == 1 && exchange(m, message, messaging.rounds);

	m->end = counted ? 0 : nanoseconds();
	return done;
}

static void *run_thread(void *m)
{
	if (!run_messenger(m)) /* the others would wait for it for ever */
		fail("a message");
	return NULL;
}

/* A process first closes the write ends that it has inherited: they would hide an end of file. */
static void messenger_start(struct messenger *m, const int *inherited, uint64_t count)
{
	if (messaging.threads) {
		m->thread = team_thread(run_thread, m);
		return;
	}
	pid_t pid = worker(); /* not to m->pid, which both would write */
	if (pid < 0)
		fail("a process for each worker");
	if (pid) {
		m->pid = pid;
		return;
	}
	while (count--)
		close(inherited[count]);
	_exit(!run_messenger(m));
}

/* Waits for its end. */
static bool messenger_succeeded(const struct messenger *m)
{
	return messaging.threads ? !pthread_join(m->thread, NULL) : child_succeeded(m->pid);
}

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

/* Waits until all workers are ready. */
static uint64_t count_ready(uint64_t workers)
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
	uint64_t groups = param(o, "groups", 1), fds = param(o, "fds", 20), group_size = 2 * fds;
	uint64_t workers = groups * group_size, there, failed, begin, end = 0;
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
		start_group(&group[i], &all[i * group_size]);
	there = count_ready(workers);
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
