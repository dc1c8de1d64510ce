/* SPDX-License-Identifier: MIT */
/*
 * The calls are the C library's, as in the programs that this is modelled on. The first byte of a
 * message is the number of its round: the receivers add up what the senders do.
 */
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "messenger.h"
#include "nanoseconds.h"
#include "team.h"

enum { WARM_UP = 2 }; /* rounds */

struct messaging messaging;

void messenger_channel(int fd[2])
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

static bool work(struct messenger *m, char *message, uint64_t rounds)
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

static bool run(struct messenger *m)
{
	struct pollfd wake = { .fd = messaging.wake[0], .events = POLLIN };
	char message[BYTES_MAX] = { 0 };
	bool done = work(m, message, WARM_UP) && write(messaging.ready[1], "", 1) == 1 &&
		    poll(&wake, 1, -1) == 1 && work(m, message, messaging.rounds);

	m->end = counted ? 0 : nanoseconds();
	return done;
}

static void *run_thread(void *m)
{
	if (!run(m)) /* the others would wait for it for ever */
		fail("a message");
	return NULL;
}

void messenger_start(struct messenger *m, const int *inherited, uint64_t count)
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
	_exit(!run(m));
}

bool messenger_succeeded(const struct messenger *m)
{
	return messaging.threads ? !pthread_join(m->thread, NULL) : child_succeeded(m->pid);
}
