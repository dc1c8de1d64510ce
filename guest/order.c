/* SPDX-License-Identifier: MIT */
/* Parses an order, or runs several of them. */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

bool order_name(char *to, const char *name)
{
	size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");

	if (!length || length > NAME_MAX_LENGTH || name[length])
		return false;
	memcpy(to, name, length + 1);
	return true;
}

static bool number(uint64_t *to, const char *digits)
{
	uint64_t value = 0;

	if (!*digits)
		return false;
	for (; *digits; digits++) {
		if (*digits < '0' || *digits > '9')
			return false;
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, *digits - '0', &value))
			return false;
	}
	*to = value;
	return true;
}

bool order_set(struct order *o, const char *name, const char *value)
{
	struct param *p = &o->param[o->params];

	if (!strcmp(name, "ops"))
		return number(&o->ops, value);
	if (!strcmp(name, "phase"))
		return number(&o->phase, value);
	if (!strcmp(name, "counters")) {
		counters_want(!strcmp(value, "1"));
		return true;
	}
	if (o->params == PARAMS_MAX || !order_name(p->name, name) || !number(&p->value, value))
		return false;
	o->params++;
	return true;
}

uint64_t param(const struct order *o, const char *name, uint64_t otherwise)
{
	for (unsigned i = 0; i < o->params; i++)
		if (!strcmp(o->param[i].name, name))
			return o->param[i].value;
	return otherwise;
}

/* Splits a copy of the line, so that the caller can still quote the line. */
static bool parse_line(struct order *o, const char *line)
{
	char copy[128];
	char *word, *rest;

	if (strlen(line) >= sizeof(copy))
		return false;
	rest = strcpy(copy, line);
	word = strsep(&rest, " ");
	if (!rest)
		return false;
	if (!strcmp(word, "run"))
		return order_name(o->name, rest);
	if (!strcmp(word, "param")) {
		word = strsep(&rest, " ");
		return rest && order_set(o, word, rest);
	}
	return (!strcmp(word, "ops") || !strcmp(word, "phase")) && order_set(o, word, rest);
}

/* Strict, so that an order of a newer host is refused. */
const char *order_parse(struct order *o, char *text)
{
	char *line = strsep(&text, "\n");

	if (strcmp(line, "ktax 1"))
		return "not an order of version 1";
	while ((line = strsep(&text, "\n")) && (text || *line)) {
		if (!strcmp(line, "end"))
			return o->name[0] && o->ops ? NULL : "nothing to run";
		if (!parse_line(o, line))
			return line;
	}
	return "cut off before its end";
}

static const char mark[] = "order:";

bool orders_is_one(int argc, char **argv)
{
	return argc == 2 && !strcmp(argv[0], mark) && getppid() == 1;
}

/* Not in this program's data: every fork of a workload would copy it. */
char *machine_orders_memory(size_t *size)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;

	*size = 64 << 10;
	char *text = mmap(NULL, *size, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (text == MAP_FAILED)
		fail("mmap");
	return text;
}

/* Returns the first order, including its line `end`, and moves `text` behind it. */
static char *cut(char **text)
{
	static const char last[] = "\nend\n";
	char *order = *text, *end = strstr(order, last);

	*text = order + strlen(order);
	if (end) {
		*text = end + sizeof(last) - 1;
		(*text)[-1] = 0;
	}
	return order;
}

static __attribute__((noreturn)) void become(char *order)
{
	setpgid(0, 0);
	execve("/init", (char *[]){ (char *)mark, order, NULL }, (char *[]){ NULL });
	fail("execve");
}

/* Orphans become children of this process, so it waits for them as well. */
static int wait_for(pid_t order)
{
	int status = 0;
	pid_t ended;

	do
		ended = wait(&status);
	while (ended > 0 && ended != order);
	return status;
}

/* An order that ended well has cleaned up, except for orphaned processes. */
static void sweep(bool well)
{
	kill(-1, SIGKILL); /* all but this process */
	while (wait(NULL) > 0)
		;
	if (!well)
		scratch_sweep();
	wire_forget();
	settings_restore();
}

/*
 * Runs several orders in one boot, for timing: each in a fresh process of this program, one at a
 * time, as natively. However one of them ends, the next one finds nothing of it.
 */
void orders_run(char *text)
{
	counted = false;
	settings_note();
	while (*text) {
		char *order = cut(&text);
		SAY("ktax 1");
		pid_t pid = fork();
		if (!pid)
			become(order);
		int status = pid > 0 ? wait_for(pid) : 0;
		if (pid < 0)
			SAY("fail fork: no process for it");
		else if (WIFSIGNALED(status) && !wire_failed())
			say_number("fail ended by signal ", WTERMSIG(status));
		sweep(pid > 0 && !status);
	}
	machine_stop();
}
