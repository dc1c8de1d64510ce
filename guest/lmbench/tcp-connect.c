/* SPDX-License-Identifier: MIT */
/*
 * Connect to a server process over loopback and close at once; the server accepts, reads end of
 * file and closes. It may lag behind, but by less than its backlog, beyond which a connection
 * would wait for a retransmission. When the Region ends, both sides are done.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "ktax.h"
#include "loopback.h"

enum { WARM_UP = 256, BATCH = 64, BACKLOG = 128 };

static struct sockaddr_in at;
static int server, done[2];

/* Both sides meet here after so many connections. */
static bool meets(uint64_t n, uint64_t all)
{
	return n % BATCH == 0 || n == all;
}

/* A connection that is not made is fatal: the server would wait for it. */
static __attribute__((noinline, noclone)) void connections(uint64_t all)
{
	char byte;

	for (uint64_t n = 1; n <= all; n++) {
		if (close(loopback_connected(SOCK_STREAM, &at)))
			fail("close");
		if (meets(n, all) && read(done[0], &byte, 1) != 1)
			fail("server");
	}
}

static void serve(uint64_t all)
{
	char byte;

	for (uint64_t n = 1; n <= all; n++) {
		int fd = accept(server, NULL, NULL);
		if (fd < 0 || read(fd, &byte, 1) || close(fd))
			_exit(1);
		if (meets(n, all) && write(done[1], "", 1) != 1)
			_exit(1);
	}
}

static void tcp_connect_run(const struct order *o)
{
	server = loopback_bound(SOCK_STREAM, &at);
	if (listen(server, BACKLOG) || pipe(done))
		fail("listen");
	pid_t pid = worker();
	if (pid < 0)
		fail("clone");
	if (!pid) {
		serve(WARM_UP);
		serve(o->ops);
		_exit(0);
	}
	close(done[1]); /* else the end of the server would not be seen */
	connections(WARM_UP);
	region_begin();
	connections(o->ops);
	region_end();
	sig("connections", o->ops);
	sig("children", child_succeeded(pid));
}

WORKLOAD("tcp-connect", tcp_connect_run);
