/* SPDX-License-Identifier: MIT */
/* Sends lines to the host at once, so that a crash or a panic loses no earlier line. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

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
	static char line[1024];
	size_t used = 0;

	for (; *words; words++)
		for (const char *c = *words; *c && used < sizeof(line) - 1; c++)
			line[used++] = *c;
	line[used++] = '\n';
	wire_write(line, used);
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

/* Several threads may fail at once. One speaks, since nothing may follow what it says. */
void fail(const char *what)
{
	static atomic_flag spoken = ATOMIC_FLAG_INIT;

	while (atomic_flag_test_and_set(&spoken))
		pause();
	SAY("fail ", what, ": ", errno ? strerror(errno) : "not the result it must have");
	finish(1);
}

void finish(int status)
{
	before_end();
	if (in_guest && counted)
		machine_stop();
	_exit(status);
}
