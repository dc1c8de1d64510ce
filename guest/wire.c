/* SPDX-License-Identifier: MIT */
/* Sends lines to the host at once, so that a crash or a panic loses no earlier line. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

/*
 * Of all threads and processes of a workload one says why it failed, and nothing may follow. They
 * share this. In a guest only threads do, as a mapping would be one more to copy in each fork; of
 * its processes one makes a directory.
 */
static const char claimed[] = "/failed", done[] = "/failed/said";
enum { NOBODY, SPEAKS, HAS_SPOKEN };
static atomic_int own, *failure = &own;
static atomic_int writers; /* threads of this process that write a line */

void wire_write(const char *text, size_t length)
{
	if (in_guest) {
		machine_write(text, length);
		return;
	}
	while (length) {
		ssize_t n = write(STDOUT_FILENO, text, length);
		if (n < 0) { /* stdout is closed */
			before_end();
			_exit(1);
		}
		text += n;
		length -= n;
	}
}

void say(const char *const *words)
{
	char line[1024];
	size_t used = 0;

	for (; *words; words++)
		for (const char *c = *words; *c && used < sizeof(line) - 1; c++)
			line[used++] = *c;
	line[used++] = '\n';
	atomic_fetch_add(&writers, 1);
	wire_write(line, used);
	atomic_fetch_sub(&writers, 1);
}

void wire_share(void *shared)
{
	failure = shared;
}

bool wire_failed(void)
{
	return atomic_load(failure) || (in_guest && !access(claimed, F_OK));
}

void wire_forget(void)
{
	rmdir(done);
	rmdir(claimed);
}

/* Waits for somebody else, who may have been killed: a second is long enough. */
static void wait_for(bool (*is_so)(void))
{
	const struct timespec millisecond = { .tv_nsec = 1000000 };

	for (int i = 0; i < 1000 && !is_so(); i++)
		nanosleep(&millisecond, NULL);
}

static bool has_spoken(void)
{
	return atomic_load(failure) == HAS_SPOKEN || (in_guest && !access(done, F_OK));
}

static bool nobody_writes(void)
{
	return !atomic_load(&writers);
}

/* Returns in one thread of this process, which ends it. */
static void be_the_last(void)
{
	static atomic_flag ending = ATOMIC_FLAG_INIT;

	while (atomic_flag_test_and_set(&ending))
		pause();
}

static bool is_first(void)
{
	int nobody = NOBODY;

	return atomic_compare_exchange_strong(failure, &nobody, SPEAKS) &&
	       !(in_guest && mkdir(claimed, 0700) && errno == EEXIST);
}

void say_number(const char *before, uint64_t value)
{
	char digits[21];
	char *at = digits + sizeof(digits) - 1;

	*at = 0;
	do
		*--at = '0' + value % 10;
	while (value /= 10);
	SAY(before, at);
}

static void say_entry(const char *kind, const char *name, uint64_t number)
{
	char before[16 + NAME_MAX_LENGTH];

	if (wire_failed()) {
		be_the_last();
		wait_for(has_spoken);
		finish(1);
	}
	strcpy(before, kind);
	strncat(before, name, NAME_MAX_LENGTH);
	strcat(before, " ");
	say_number(before, number);
}

void sig(const char *name, uint64_t number)
{
	say_entry("sig ", name, number);
}

void value(const char *name, uint64_t number)
{
	say_entry("value ", name, number);
}

void fail(const char *what)
{
	const char *why = errno ? strerror(errno) : "not the result it must have";

	be_the_last();
	if (is_first()) {
		wait_for(nobody_writes);
		SAY("fail ", what, ": ", why);
		atomic_store(failure, HAS_SPOKEN);
		if (in_guest)
			mkdir(done, 0700);
	}
	wait_for(has_spoken);
	finish(1);
}

void finish(int status)
{
	before_end();
	if (in_guest && counted)
		machine_stop();
	_exit(status);
}
