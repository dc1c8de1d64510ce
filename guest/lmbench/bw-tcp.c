/* SPDX-License-Identifier: MIT */
/* A stream through a TCP connection over loopback. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bandwidth.h"

/* The kernel takes as much of 1 MiB as net.core.{r,w}mem_max allow; accept() inherits it. */
static int large_socket(void)
{
	const int fd = socket(AF_INET, SOCK_STREAM, 0), bytes = 1 << 20;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)))
		fail("socket");
	return fd;
}

static void bw_tcp_run(const struct order *o)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof(address);
	int listener = large_socket(), writer = large_socket(), reader;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &length))
		fail("listen");
	if (connect(writer, (struct sockaddr *)&address, length))
		fail("connect");
	reader = accept(listener, NULL, NULL);
	if (reader < 0 || close(listener))
		fail("accept");
	stream(o, reader, writer);
}

WORKLOAD("bw-tcp", bw_tcp_run);
