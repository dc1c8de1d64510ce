/* SPDX-License-Identifier: MIT */
/* Parses an order. It is strict, so that it refuses what a newer host may ask for. */
#include <string.h>

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
