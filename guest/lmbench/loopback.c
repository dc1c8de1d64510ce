/* SPDX-License-Identifier: MIT */
#include "loopback.h"

#include <sys/socket.h>
#include <unistd.h>

#include "ktax.h"

int loopback_bound(int type, struct sockaddr_in *at)
{
	socklen_t length = sizeof(*at);
	int fd = socket(AF_INET, type, 0);

	*at = (struct sockaddr_in){ .sin_family = AF_INET };
	at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)at, length) ||
	    getsockname(fd, (struct sockaddr *)at, &length))
		fail("bind to 127.0.0.1");
	return fd;
}

int loopback_connected(int type, const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, type, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		fail("connect to 127.0.0.1");
	return fd;
}

void loopback_tcp(int ends[2])
{
	struct sockaddr_in at;
	int listener = loopback_bound(SOCK_STREAM, &at);

	if (listen(listener, 1))
		fail("listen");
	ends[0] = loopback_connected(SOCK_STREAM, &at);
	ends[1] = accept(listener, NULL, NULL);
	if (ends[1] < 0)
		fail("accept");
	close(listener);
}
