/* SPDX-License-Identifier: MIT */
/* Not a measurement: sends the plugin the addresses of the kernel's functions, or variables. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "ktax.h"

enum { TYPE = 17 }; /* "ffffffff81000000 T _stext": where the type stands */

/* Leaves the lines of functions, or of all else, moved together, and returns their length. */
static size_t of_kind(bool variables, char *text, const char *end)
{
	char *to = text, *next;

	for (const char *line = text; line < end; line = next) {
		next = (char *)memchr(line, '\n', end - line) + 1;
		if (next - line > TYPE && !strchr("tTwW", line[TYPE]) == variables) {
			memmove(to, line, next - line);
			to += next - line;
		}
	}
	return to - text;
}

/* Each byte costs the host a system call: data, half of many tables, is sent if asked for. */
static void symbols_run(const struct order *o)
{
	static char text[65536];
	int fd = open("/proc/kallsyms", O_RDONLY);
	bool variables = param(o, "variables", 0);
	size_t rest = 0; /* of a line that is not whole yet */
	ssize_t n;

	if (fd < 0)
		fail("open /proc/kallsyms");
	while ((n = read(fd, text + rest, sizeof(text) - rest)) > 0) {
		const char *last = memrchr(text, '\n', rest + n);
		size_t whole = last ? last + 1 - text : 0;

		rest += n - whole;
		wire_write(text, of_kind(variables, text, text + whole));
		memmove(text, text + whole, rest);
	}
	if (n < 0 || rest)
		fail("read /proc/kallsyms");
}

WORKLOAD("symbols", symbols_run);
