/* SPDX-License-Identifier: MIT */
/* A datagram of four bytes, a number, there and back between two processes over loopback. */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"
#include "loopback.h"

enum { BYTES = sizeof(uint32_t) };

static int client;

static int op(void)
{
	static uint32_t number;
	uint32_t back = ++number;

	if (syscall(SYS_sendto, client, &back, BYTES, 0, NULL, 0) != BYTES)
		return 1;
	back = 0;
	return syscall(SYS_recvfrom, client, &back, BYTES, 0, NULL, NULL) != BYTES || back != number;
}

/* Sends every datagram back to where it came from, until one is empty. */
static __attribute__((noreturn)) void echo(int fd)
{
	struct sockaddr_in from;
	socklen_t length = sizeof(from);
	uint32_t data;
	long n;

	while ((n = syscall(SYS_recvfrom, fd, &data, BYTES, 0, &from, &length)) == BYTES)
		if (syscall(SYS_sendto, fd, &data, BYTES, 0, &from, length) != BYTES)
			_exit(1);
	_exit(n != 0);
}

static void udp_run(const struct order *o)
{
	struct sockaddr_in at;
	int server = loopback_bound(SOCK_DGRAM, &at);
	pid_t pid = worker();

	if (pid < 0)
		fail("clone");
	if (!pid)
		echo(server);
	client = loopback_connected(SOCK_DGRAM, &at);
	measure(o, 200, op, "round-trips");
	if (send(client, "", 0, 0))
		fail("send");
	sig("children", child_succeeded(pid));
}

WORKLOAD("udp", udp_run);
