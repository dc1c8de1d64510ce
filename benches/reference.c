/* SPDX-License-Identifier: MIT */
/*
 * The reference of benches/native.rs: what a native row of ktax takes is compared with what a plain
 * loop here takes. It is not lmbench and has none of its code: the loops were written from its
 * description, with the ordinary calls of the C library. They have no code of ktax either, so that
 * one side can be wrong where the other is right.
 *
 * `reference ROW COUNT [PROGRAM]` does an operation COUNT times and prints the nanoseconds that it
 * took. PROGRAM is what fork-exec executes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *program;
static int to[2], from[2];

static void check(int right, const char *what)
{
	if (right)
		return;
	perror(what);
	exit(1);
}

static void null(long count)
{
	while (count--)
		getppid();
}

/* The other end of to and from: sends back what it gets, until there is nothing more. */
static void start_echo(size_t bytes)
{
	char token[8];
	pid_t pid;

	check(!pipe(to) && !pipe(from), "pipe");
	pid = fork();
	check(pid >= 0, "fork");
	if (pid)
		return;
	close(to[1]);
	while (read(to[0], token, bytes) > 0)
		check(write(from[1], token, bytes) > 0, "write");
	_exit(0);
}

static void round_trips(long count, size_t bytes)
{
	char token[8] = { 0 };

	while (count--)
		check(write(to[1], token, bytes) > 0 && read(from[0], token, bytes) > 0, "token");
}

static void byte(long count)
{
	round_trips(count, 1);
}

/* A ring of two: a lap is two switches, each with its write and read, which lmbench subtracts. */
static void ring(long count)
{
	round_trips(count / 2, sizeof(int));
}

static void end(pid_t pid)
{
	int status;

	check(pid > 0 && waitpid(pid, &status, 0) == pid && !status, "child");
}

/* As the workloads do: the C library's fork() has handlers, and writes to a page of the child. */
static pid_t bare_fork(void)
{
	return syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static void fork_exit(long count)
{
	while (count--) {
		pid_t pid = bare_fork();
		if (!pid)
			_exit(0);
		end(pid);
	}
}

static void fork_exec(long count)
{
	char *const arguments[] = { (char *)program, NULL };

	while (count--) {
		pid_t pid = bare_fork();
		if (!pid) {
			execve(program, arguments, NULL);
			_exit(127);
		}
		end(pid);
	}
}

/* One page after the other of a fresh mapping, with no larger pages in it. */
static void fault(long count)
{
	size_t size = count * 4096;
	char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(map != MAP_FAILED, "mmap");
	madvise(map, size, MADV_NOHUGEPAGE); /* refused where the kernel has none */
	for (size_t at = 0; at < size; at += 4096)
		*(volatile char *)(map + at) = 1;
}

static const struct { const char *name; void (*run)(long count); size_t token; } rows[] = {
	{ "getppid", null, 0 },
	{ "pipe", byte, 1 },
	{ "context-switch", ring, sizeof(int) },
	{ "fork-exit", fork_exit, 0 },
	{ "fork-exec", fork_exec, 0 },
	{ "page-fault", fault, 0 },
};

int main(int argc, char **argv)
{
	long count = argc > 2 ? atol(argv[2]) : 0;
	struct timespec a, b;

	program = argc > 3 ? argv[3] : "/bin/true";
	for (size_t i = 0; argc > 2 && i < sizeof(rows) / sizeof(*rows); i++) {
		if (strcmp(rows[i].name, argv[1]))
			continue;
		if (rows[i].token)
			start_echo(rows[i].token);
		rows[i].run(count / 20 + 2);
		clock_gettime(CLOCK_MONOTONIC, &a);
		rows[i].run(count);
		clock_gettime(CLOCK_MONOTONIC, &b);
		printf("%lld\n", (b.tv_sec - a.tv_sec) * 1000000000ll + b.tv_nsec - a.tv_nsec);
		return 0;
	}
	fprintf(stderr, "usage: reference ROW COUNT [PROGRAM]\n");
	return 2;
}
