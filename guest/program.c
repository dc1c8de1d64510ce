/* SPDX-License-Identifier: MIT */
/*
 * A program of the user's, in a root directory of its own. The Region is from its exec to its exit;
 * if it executes markers of its own, it is between those. The host packs the files (docs/wire.md,
 * Programs):
 *
 *   /program/N/words   the path to execute, then the arguments, each with a NUL behind it
 *   /program/N/env     the environment, likewise
 *   /program/N/stdin   its standard input
 *   /program/N/root/   its root directory; it starts in /work
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ktax.h"

enum { MOST_WORDS = 4096, OUTPUT_MIB = 32, NOT_EXECUTED = 1 };

static char directory[64], root[80], *words[MOST_WORDS + 2], *environment[MOST_WORDS + 2];
static int input, output, errors;

/* What the process says that becomes the program. */
static struct shared {
	uint64_t start;
	int error;
} *shared;

static char *path(const char *name)
{
	static char text[128];

	snprintf(text, sizeof(text), "%s/%s", directory, name);
	return text;
}

static char *contents(const char *name, size_t *size)
{
	int fd = open(path(name), O_RDONLY);
	struct stat about;

	if (fd < 0 || fstat(fd, &about))
		fail(name);
	char *text = malloc((size_t)about.st_size + 1);
	if (!text || read(fd, text, (size_t)about.st_size) != about.st_size)
		fail(name);
	close(fd);
	*size = (size_t)about.st_size;
	text[*size] = 0;
	return text;
}

/* Points to each word of a file. */
static void split(const char *name, char **to)
{
	size_t size, count = 0;
	char *text = contents(name, &size);

	for (char *word = text; word < text + size; word += strlen(word) + 1) {
		if (count == MOST_WORDS) {
			errno = E2BIG;
			fail(name);
		}
		to[count++] = word;
	}
}

static void mounted(const char *system, const char *name, const char *options)
{
	char at[128];

	snprintf(at, sizeof(at), "%s/%s", root, name);
	mkdir(at, 0755);
	if (mount(system, at, system, 0, options))
		fail(name);
}

/* Files that a program fills have a file system of their own, which ends before the memory does. */
static int output_file(const char *name)
{
	char at[128];

	snprintf(at, sizeof(at), "%s/out/%s", directory, name);
	int fd = open(at, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0666);
	if (fd < 0)
		fail(name);
	return fd;
}

static void prepare(uint64_t number)
{
	char options[32], at[128];

	snprintf(directory, sizeof(directory), "/program/%d", (int)number);
	snprintf(root, sizeof(root), "%s/root", directory);
	split("words", words);
	split("env", environment);
	if (!words[0] || !words[1]) {
		errno = ENOENT;
		fail("words");
	}
	mounted("devtmpfs", "dev", NULL);
	mounted("proc", "proc", NULL);
	mounted("sysfs", "sys", NULL);
	mounted("tmpfs", "dev/shm", "mode=1777");
	mounted("tmpfs", "run", "mode=755");
	/* The disk, where there is one. */
	snprintf(at, sizeof(at), "%s/tmp", root);
	if (!access("/program/mount", F_OK) && mount("/tmp", at, NULL, MS_BIND, NULL))
		fail("tmp");
	snprintf(at, sizeof(at), "%s/out", directory);
	mkdir(at, 0755);
	snprintf(options, sizeof(options), "size=%dm", OUTPUT_MIB);
	if (mount("tmpfs", at, "tmpfs", 0, options))
		fail("out");
	input = open(path("stdin"), O_RDONLY);
	output = output_file("stdout");
	errors = output_file("stderr");
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail("mmap");
}

static __attribute__((noreturn)) void stop(void)
{
	shared->error = errno;
	_exit(NOT_EXECUTED);
}

static __attribute__((noreturn)) void become(uid_t user, bool is_counted)
{
	signal(SIGPIPE, SIG_DFL);
	setsid();
	if (dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(errors, 2) < 0)
		stop();
	for (int fd = 3; fd < 16; fd++)
		close(fd);
	if (chroot(root) || chdir("/work") || setgroups(0, NULL) || setgid(user) || setuid(user))
		stop();
	if (is_counted) {
		shared->start = ticks();
		KTAX_MARK(0x4b540001);
	}
	execve(words[0], words + 1, environment);
	stop();
}

/* Ends everything that the program has left, so that the next run finds none of it. */
static void sweep(void)
{
	kill(-1, SIGKILL);
	while (wait(NULL) > 0)
		;
}

static int run(uid_t user, bool is_counted)
{
	int status;

	if (ftruncate(output, 0) || ftruncate(errors, 0) || lseek(input, 0, SEEK_SET))
		fail("stdin");
	pid_t pid = child();
	if (!pid)
		become(user, is_counted);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		fail("fork");
	if (is_counted) {
		KTAX_MARK(0x4b540002);
		region_ticks = ticks() - shared->start;
	}
	sweep();
	return status;
}

/* The last words on its standard error, on one line. */
static const char *last_words(void)
{
	static char text[320];
	off_t size = lseek(errors, 0, SEEK_END), begin = size > 300 ? size - 300 : 0;
	ssize_t length = pread(errors, text, 300, begin);

	for (ssize_t i = 0; i < length; i++)
		if (text[i] == '\n')
			text[i] = i + 1 < length ? '|' : 0;
	return length > 0 ? text : "nothing on its standard error";
}

static __attribute__((noreturn)) void refuse(const char *what, const char *more)
{
	SAY("fail ", what, more);
	finish(1);
}

static bool is_full(int fd)
{
	struct stat about;

	return fstat(fd, &about) || about.st_size >= (off_t)(OUTPUT_MIB - 1) << 20;
}

static void check(int status, uint64_t wanted)
{
	static char what[128];

	if (shared->error) {
		errno = shared->error;
		fail(words[0]);
	}
	if (is_full(output) || is_full(errors))
		refuse("it printed more than 31 MiB", "");
	if (WIFSIGNALED(status))
		snprintf(what, sizeof(what), "it ended by signal %d (%s): ", WTERMSIG(status),
		         strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) != wanted)
		snprintf(what, sizeof(what), "its exit status is %d, expected %d: ",
		         WEXITSTATUS(status), (int)wanted);
	else
		return;
	refuse(what, last_words());
}

/* FNV-1a of what it printed: another output is other work. */
static uint64_t printed(void)
{
	static unsigned char block[4096];
	uint64_t hash = 0xcbf29ce484222325;
	off_t at = 0;

	for (ssize_t length; (length = pread(output, block, sizeof(block), at)) > 0; at += length)
		for (ssize_t i = 0; i < length; i++)
			hash = (hash ^ block[i]) * 0x100000001b3;
	return hash >> 1; /* the host's numbers have 63 bits */
}

static void program_run(const struct order *o)
{
	uint64_t wanted = param(o, "status", 0);
	uid_t user = param(o, "user", 0);

	prepare(param(o, "number", 0));
	for (uint64_t i = param(o, "warm-up", 0); i; i--)
		check(run(user, false), wanted);
	check(run(user, true), wanted);
	sig("exit-status", wanted);
	sig("stdout", printed());
	value("stdout-bytes", lseek(output, 0, SEEK_END));
}

WORKLOAD("program", program_run);
