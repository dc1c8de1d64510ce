/* SPDX-License-Identifier: MIT */
/* Rows of lmbench with several processes: made, executed, switched, and sending to each other. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lmbench.h"

/* Make a process that ends at once, and wait for it. */
static void fork_exit_run(const struct order *o)
{
	measure(o, 20, child_round, "children");
}

WORKLOAD("fork-exit", fork_exit_run);

/* Make a process that executes a tiny static program, and wait for it. */
static const char *program;

static int fork_exec_op(void)
{
	char *const arguments[] = { "hello", NULL }, *const environment[] = { NULL };
	pid_t pid = child();

	if (!pid) {
		syscall(SYS_execve, program, arguments, environment);
		syscall(SYS_exit_group, 127);
	}
	return pid < 0 || !child_succeeded(pid);
}

static void fork_exec_run(const struct order *o)
{
	program = hello_program();
	if (access(program, X_OK))
		fail(program);
	measure(o, 20, fork_exec_op, "children");
}

WORKLOAD("fork-exec", fork_exec_run);

/*
 * Make a process that executes a shell that makes a process that executes a tiny program. The
 * shell is this program in the role "sh", so that no dynamic linker and no distribution's shell is
 * measured; real-shell=1 takes /bin/sh, natively.
 */
static const char *shell;
static char *arguments[4] = { "role:sh", "-c" };

/* Executes a PROGRAM of one word as a shell does with `-c PROGRAM`. */
static int sh(int argc, char **argv)
{
	if (argc != 3 || strcmp(argv[1], "-c"))
		return 2;
	pid_t pid = child();
	if (!pid) {
		syscall(SYS_execve, argv[2], (char *[]){ argv[2], NULL }, (char *[]){ NULL });
		syscall(SYS_exit_group, 127);
	}
	return pid < 0 || !child_succeeded(pid);
}
ROLE("sh", sh);

static int sh_op(void)
{
	pid_t pid = child();

	if (!pid) {
		syscall(SYS_execve, shell, arguments, (char *[]){ NULL });
		syscall(SYS_exit_group, 127);
	}
	return pid < 0 || !child_succeeded(pid);
}

static void sh_run(const struct order *o)
{
	shell = role_program;
	if (param(o, "real-shell", 0)) {
		errno = ENOTSUP;
		if (in_guest)
			fail("real-shell: a guest has none");
		shell = "/bin/sh";
		arguments[0] = "sh";
	}
	arguments[2] = (char *)hello_program();
	if (access(shell, X_OK))
		fail(shell);
	if (access(arguments[2], X_OK))
		fail(arguments[2]);
	measure(o, 10, sh_op, "children");
}

WORKLOAD("sh", sh_run);

/*
 * A token goes round a ring of processes joined by pipes; who gets it sums an array of its own and
 * passes it on. One operation is one hop. All stay on one CPU, so that each hop is a switch.
 */

/* So many hops until nobody is so far behind in time on the CPU that he preempts who wakes him. */
enum { MEMBERS_MAX = 96, HOPS_BEFORE = 3200, TOKEN = sizeof(uint32_t) };

static int pipes[MEMBERS_MAX][2]; /* pipes[i] leads to member i; this process is member 0 */
static uint64_t members, words, *array;

static bool put(uint64_t member, uint32_t token)
{
	return syscall(SYS_write, pipes[member][1], &token, TOKEN) == TOKEN;
}

static bool take(uint64_t member, uint32_t *token)
{
	long n = syscall(SYS_read, pipes[member][0], token, TOKEN);
	uint64_t sum = 0;

#pragma GCC unroll 8
	for (uint64_t i = 0; i < words; i++)
		sum += array[i];
	return n == TOKEN && sum == words;
}

/* The token is the number of hops that are left. One of 0 ends the member, and all behind it. */
static __attribute__((noreturn)) void member(uint64_t self, uint64_t next)
{
	uint32_t token;

	while (take(self, &token) && token)
		put(next, token - 1);
	_exit(!put(next, 0));
}

/*
 * Hops beyond whole laps come first: the token enters farther along the ring, and ends here. How
 * many hops there were is seen by what they have taken off the token.
 */
static __attribute__((noinline, noclone)) uint64_t ring(uint32_t hops)
{
	uint64_t next = (members + 1 - hops % members) % members, seen = 0;

	for (uint32_t token = hops, sent; token; token--, next = 1) {
		sent = token;
		if (!put(next, token) || !take(0, &token) || !token)
			fail("ring");
		seen += sent - token + 1;
	}
	return seen;
}

static int alone(void)
{
	static uint64_t hops;
	uint64_t self = hops++ % members;
	uint32_t token;

	return !put(self, 1) || !take(self, &token);
}

static void context_switch_run(const struct order *o)
{
	uint64_t kib = param(o, "kib", 0), self = 1, failed = 0, switches;
	pid_t pids[MEMBERS_MAX];
	cpu_set_t cpu = { 0 };

	members = param(o, "processes", 2);
	words = kib * 1024 / sizeof(*array);
	array = (uint64_t *)pages(kib / 4 + 1);
	CPU_SET(sched_getcpu(), &cpu);
	if (members < 2 || members > MEMBERS_MAX || sched_setaffinity(0, sizeof(cpu), &cpu))
		fail("processes");
	for (uint64_t i = 0; i < members; i++)
		if (pipe(pipes[i]))
			fail("pipe");
	while (self < members && (pids[self] = worker()) > 0)
		self++;
	if (self < members && pids[self] < 0)
		fail("clone");
	for (uint64_t i = 0; i < words; i++) /* after the fork: nobody shares them */
		array[i] = 1;
	if (self < members)
		member(self, (self + 1) % members);
	ring(HOPS_BEFORE / members * members + members);
	region_begin();
	switches = ring(o->ops);
	region_end();
	put(1, 0);
	for (uint64_t i = 1; i < members; i++)
		failed += !child_succeeded(pids[i]);
	sig("switches", switches);
	sig("failed", failed);
	overhead(o, alone); /* what a hop costs without the switch */
}

WORKLOAD("context-switch", context_switch_run);

/*
 * One byte there and back between this process and a child that echoes. This process writes to `to`
 * and reads from `from`, the child reads `in` and writes `out`.
 */
struct round_trip { int to, from, in, out; };

static struct round_trip ends;

static int round_trip_op(void)
{
	char byte;

	return syscall(SYS_write, ends.to, "", 1) != 1 || syscall(SYS_read, ends.from, &byte, 1) != 1;
}

/* The whole row. */
static void round_trips(const struct order *o, struct round_trip own)
{
	ends = own;
	pid_t echo = child_echo(ends.in, ends.out, ends.to);
	/* So many until the scheduler settles: neither process preempts the other at its wakeup. */
	measure(o, 1500, round_trip_op, "round-trips");
	close(ends.to);
	sig("children", child_succeeded(echo));
}

/* One byte there and back between two processes over two pipes: two context switches. */
static void pipe_run(const struct order *o)
{
	int to[2], from[2];

	if (pipe(to) || pipe(from))
		fail("pipe");
	round_trips(o, (struct round_trip){ to[1], from[0], to[0], from[1] });
}

WORKLOAD("pipe", pipe_run);

/* One byte there and back between two processes over a stream socket pair. */
static void af_unix_run(const struct order *o)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		fail("socketpair");
	round_trips(o, (struct round_trip){ ends[0], ends[0], ends[1], ends[1] });
}

WORKLOAD("af-unix", af_unix_run);

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

/* One byte there and back between two processes over one TCP connection of loopback. */
static void tcp_run(const struct order *o)
{
	int ends[2];

	loopback_tcp(ends);
	round_trips(o, (struct round_trip){ ends[0], ends[0], ends[1], ends[1] });
}

WORKLOAD("tcp", tcp_run);

/* A datagram of four bytes, a number, there and back between two processes over loopback. */
enum { BYTES = sizeof(uint32_t) };

static int client;

static int udp_op(void)
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
	measure(o, 200, udp_op, "round-trips");
	if (send(client, "", 0, 0))
		fail("send");
	sig("children", child_succeeded(pid));
}

WORKLOAD("udp", udp_run);

/*
 * Connect to a server process over loopback and close at once; the server accepts, reads end of
 * file and closes. It may lag behind, but by less than its backlog, beyond which a connection
 * would wait for a retransmission. When the Region ends, both sides are done.
 */
enum { CONNECTIONS_BEFORE = 256, BATCH = 64, BACKLOG = 128 };

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
		serve(CONNECTIONS_BEFORE);
		serve(o->ops);
		_exit(0);
	}
	close(done[1]); /* else the end of the server would not be seen */
	connections(CONNECTIONS_BEFORE);
	region_begin();
	connections(o->ops);
	region_end();
	sig("connections", o->ops);
	sig("children", child_succeeded(pid));
}

WORKLOAD("tcp-connect", tcp_connect_run);

/*
 * A child writes 64 KiB at a time, this process reads them. Each KiB of the 64 begins with its
 * number, so that one that is lost, doubled or out of order is noticed.
 */
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

static void stream(const struct order *o, int from, int to)
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

/* A stream through a pipe. */
static void bw_pipe_run(const struct order *o)
{
	int ends[2];

	if (pipe(ends))
		fail("pipe");
	stream(o, ends[0], ends[1]);
}

WORKLOAD("bw-pipe", bw_pipe_run);

/* A stream through a TCP connection over loopback. */

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

/* A stream through a pair of Unix sockets. */
static void bw_unix_run(const struct order *o)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		fail("socketpair");
	stream(o, ends[0], ends[1]);
}

WORKLOAD("bw-unix", bw_unix_run);
