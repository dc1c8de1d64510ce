/* SPDX-License-Identifier: MIT */
/*
 * A program of the user's, /program/N. The Region is from its exec to its exit; if it executes
 * markers of its own, it is between those. Where times are measured, the Region is `runs` runs,
 * each from fork to wait. What it printed is hashed, and sent to the host, which reads it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "program.h"
#include "tools.h"

static struct rooted program;
static char **words;
static pid_t newest; /* of the processes that were there before it */

/* Said by the process that becomes the program. */
static struct shared {
	uint64_t start;
	int error;
} *shared;

/* Bytes that system calls of this process, and of the children that it waited for, moved. */
struct moved {
	uint64_t read, written;
	bool is_known;
};

static struct moved moved_before, moved_after;

enum how { WARM_UP, COUNTED, TIMED, TRACED, OPENED };

/* The values of the parameter `trace`. */
enum { CALLS_TRACED = 1, FILES_TRACED = 2 };

/* Natively a program has its user in a sandbox alone; there it may be the only one there is. */
static void become_user(uid_t user)
{
	if (!setgroups(0, NULL) && !setgid(user) && !setuid(user))
		errno = 0;
}

static __attribute__((noreturn)) void become(uid_t user, enum how how)
{
	if (rooted_enter(&program, user)) {
		if (how == TRACED)
			trace_calls_begin();
		if (how == OPENED && !in_guest)
			become_user(user);
		if (how == OPENED)
			trace_begin();
		if (how == COUNTED) {
			shared->start = ticks();
			KTAX_MARK(0x4b540001);
		}
		execve(words[0], words + 1, program.environment);
	}
	shared->error = errno;
	_exit(1);
}

/* Calls for each process that the program has left; returns whether there is one. */
static bool left(void (*call)(pid_t))
{
	DIR *processes = opendir("/proc");
	bool is_one = false;

	for (struct dirent *entry; processes && (entry = readdir(processes));) {
		pid_t pid = atoi(entry->d_name);
		if (pid > newest) {
			call(pid);
			is_one = true;
		}
	}
	closedir(processes);
	return is_one;
}

static void note(pid_t pid)
{
	if (pid > newest)
		newest = pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void look_at_bytes(struct moved *moved)
{
	char text[512] = "";
	int fd = open("/proc/self/io", O_RDONLY);
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *read_at = strstr(text, "rchar: "), *written_at = strstr(text, "wchar: ");

	close(fd);
	moved->is_known = length > 0 && read_at && written_at;
	if (!moved->is_known)
		return;
	moved->read = strtoull(read_at + 7, NULL, 10);
	moved->written = strtoull(written_at + 7, NULL, 10);
	if (moved == &moved_before)
		moved->read += (uint64_t)length; /* what was read here counts from now on */
}

static void say_bytes(void)
{
	if (!moved_before.is_known || !moved_after.is_known)
		return;
	value("bytes-read", moved_after.read - moved_before.read);
	value("bytes-written", moved_after.written - moved_before.written);
}

/* Runs it once; false: it was ended before its end. */
static bool run(uid_t user, enum how how, int *status)
{
	bool has_ended = true;

	if (!rooted_empty(&program))
		fail("stdin");
	if (how == COUNTED)
		look_at_bytes(&moved_before);
	pid_t pid = child();
	if (!pid)
		become(user, how);
	if (pid > 0 && how == TRACED)
		has_ended = trace_calls(pid, status);
	else if (pid > 0 && how == OPENED)
		has_ended = trace_files(pid, in_guest ? program.root : "", status);
	else if (pid < 0 || waitpid(pid, status, 0) != pid)
		fail("fork");
	if (how == COUNTED) {
		KTAX_MARK(0x4b540002);
		region_ticks = ticks() - shared->start;
		look_at_bytes(&moved_after);
	}
	/* The next run finds nothing of this one. Natively other processes are not ours. */
	while (how != TIMED && in_guest && left(end))
		;
	return has_ended;
}

static __attribute__((noreturn)) void refuse(const char *what, const char *more)
{
	SAY("fail ", what, more);
	finish(1);
}

static void run_well(uid_t user, enum how how, uint64_t wanted)
{
	int status;

	if (!run(user, how, &status))
		return;
	if (shared->error || rooted_is_full(&program) || rooted_wrong(status, wanted))
		rooted_print(&program);
	if (shared->error) {
		errno = shared->error;
		fail(words[0]);
	}
	if (rooted_is_full(&program))
		refuse("it printed more than 31 MiB", "");
	const char *wrong = rooted_wrong(status, wanted);
	if (wrong)
		refuse(wrong, rooted_last_words(&program));
}

/* Another output is other work. */
static uint64_t hash(const char *text, size_t size)
{
	return hash_bytes(HASH_START, text, size) >> 1; /* the host's numbers have 63 bits */
}

static void say_output(bool may_differ)
{
	off_t size = lseek(program.output, 0, SEEK_END);
	const char *text = "";

	if (size > 0) {
		text = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, program.output, 0);
		if (text == MAP_FAILED)
			fail("stdout");
	}
	if (may_differ)
		value("stdout", hash(text, (size_t)size));
	else
		sig("stdout", hash(text, (size_t)size));
	value("stdout-bytes", (uint64_t)size);
	say_bytes();
	rooted_print(&program);
}

/* Natively it has the environment of this process, which a prefix may have changed. */
static void inherit(void)
{
	unsetenv("KTAX_PROGRAMS");
	unsetenv("KTAX_HELLO");
	for (char **set = program.environment; *set; set++)
		if (putenv(*set))
			fail("putenv");
	program.environment = environ;
}

static void open_program(uint64_t number, bool is_as_in_guest)
{
	const char *all = in_guest ? "/program" : getenv("KTAX_PROGRAMS");
	char directory[sizeof(program.directory)];

	if (!all)
		refuse("KTAX_PROGRAMS does not say where it is", "");
	snprintf(directory, sizeof(directory), "%s/%d", all, (int)number);
	if (!rooted_open(&program, directory) || !(words = rooted_words(&program, "words")) ||
	    !words[0])
		fail(directory);
	if (in_guest)
		hooks_prepare(&program);
	else if (!is_as_in_guest)
		inherit();
	if (!rooted_files(&program))
		fail(directory);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail("mmap");
	left(note);
}

static void time_runs(uid_t user, uint64_t runs, uint64_t wanted)
{
	region_begin();
	for (uint64_t i = runs; i; i--)
		run_well(user, TIMED, wanted);
	region_end();
	sig("runs", runs);
}

static const char *const hook_names[] = { "setup", "prepare" };
enum { HOOKS = sizeof(hook_names) / sizeof(hook_names[0]) };
static char **hooks[HOOKS]; /* their words, where they are there */

/* Natively what runs besides is traced, too. Its words are read before a sandbox hides them. */
static void read_hooks(void)
{
	for (int i = 0; i < HOOKS; i++) {
		if (in_guest || !rooted_exists(program.directory, hook_names[i]))
			continue;
		hooks[i] = rooted_words(&program, hook_names[i]);
		if (!hooks[i])
			fail(hook_names[i]);
	}
}

static void trace_hooks(void)
{
	int status;

	for (int i = 0; i < HOOKS; i++) {
		if (!hooks[i])
			continue;
		words = hooks[i];
		if (!run(0, OPENED, &status))
			return;
		const char *wrong = rooted_wrong(status, 0);
		if (wrong)
			refuse(wrong, rooted_last_words(&program));
	}
}

/* However the program ends: a file that it does not find may be why. */
static void run_for_files(uid_t user)
{
	char **own = words;
	int status = 0;

	trace_hooks();
	words = own;
	if (!run(user, OPENED, &status))
		return;
	if (WIFSIGNALED(status))
		value("signal", (uint64_t)WTERMSIG(status));
	else
		value("status", (uint64_t)WEXITSTATUS(status));
}

static void program_run(const struct order *o)
{
	uint64_t wanted = param(o, "status", 0), trace = param(o, "trace", 0);
	uid_t user = param(o, "user", 0);

	open_program(param(o, "number", 0), trace == FILES_TRACED);
	if (trace == FILES_TRACED) {
		read_hooks();
		if (!in_guest)
			sandbox_enter(program.root, user);
		run_for_files(user);
		return;
	}
	for (uint64_t i = param(o, "warm-up", 0); i; i--)
		run_well(user, WARM_UP, wanted);
	if (trace == CALLS_TRACED) {
		run_well(user, TRACED, wanted);
		return;
	}
	if (counted)
		run_well(user, COUNTED, wanted);
	else
		time_runs(user, param(o, "runs", 1), wanted);
	sig("exit-status", wanted);
	say_output(param(o, "any-output", 0));
}

WORKLOAD("program", program_run);
