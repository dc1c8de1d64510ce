/* SPDX-License-Identifier: MIT */
/* The same messages over loopback. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "jobs.h"

/* A socket on a port that the kernel chooses, and its address. */
static int bound(int type, struct sockaddr_in *address)
{
	socklen_t length = sizeof(*address);
	int fd = socket(AF_INET, type, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET };
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)address, length) ||
	    getsockname(fd, (struct sockaddr *)address, &length))
		return -1;
	return fd;
}

const char *tcp_test(void)
{
	/* Reset at the end: thousands of users would else hold all ports in TIME_WAIT. */
	const struct linger reset = { .l_onoff = 1 };
	struct sockaddr_in address;
	int on = 1, listener = bound(SOCK_STREAM, &address), to = socket(AF_INET, SOCK_STREAM, 0);

	if (listener < 0 || listen(listener, 1))
		return "listen";
	if (connect(to, (struct sockaddr *)&address, sizeof(address)))
		return "connect";
	int from = accept(listener, NULL, NULL);
	if (from < 0 || close(listener))
		return "accept";
	if (setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    setsockopt(from, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    setsockopt(to, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)))
		return "setsockopt";
	return send_and_close(to, from, 89);
}

const char *udp_test(void)
{
	/* A lost datagram ends the run instead of holding it for ever. */
	const struct timeval limit = { .tv_sec = 60 };
	struct sockaddr_in here, there;
	int to = bound(SOCK_DGRAM, &here), from = bound(SOCK_DGRAM, &there);

	if (to < 0 || from < 0 || connect(to, (struct sockaddr *)&there, sizeof(there)))
		return "connect";
	if (setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
		return "setsockopt";
	return send_and_close(to, from, 99);
}
