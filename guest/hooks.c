/* SPDX-License-Identifier: MIT */
/*
 * What the user lets run besides: /program/N/setup before the Snapshot and /program/N/prepare
 * before each run of program N, in its root directory; /program/rows has those of all other rows.
 * /program/sysctl has pairs of a file and what is written to it first; /program/side has the set-up
 * of one side, which runs after that of both.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "guest.h"
#include "rooted.h"

static struct rooted rows;

/* Runs one of them, if it is there; NULL, or what is wrong, and what it said in `more`. */
static const char *hook(const struct rooted *r, const char *name, const char **more)
{
	struct rooted own = *r;
	const char *wrong;

	*more = "";
	if (!rooted_exists(r->directory, name))
		return NULL;
	if (!rooted_files(&own))
		return strerror(errno);
	wrong = rooted_wrong(rooted_run(&own, name), 0);
	if (wrong)
		*more = rooted_last_words(&own);
	rooted_close(&own);
	return wrong;
}

static bool set_up(struct rooted *r, const char *directory)
{
	const char *wrong, *more = "";

	if (!rooted_exists(directory, "root"))
		return false;
	if (!rooted_open(r, directory) || !rooted_mount(r))
		wrong = errno == ENOSPC ? "its files do not fit on the disk" : strerror(errno);
	else {
		rooted_clock(r);
		wrong = hook(r, "setup", &more);
	}
	if (wrong)
		SAY("failed the set-up: ", wrong, more);
	return true;
}

void hooks_setup(void)
{
	static struct rooted program, side;
	static const struct rooted all = { .directory = "/program" };
	char directory[32];

	if (!settings_write(rooted_words(&all, "sysctl")))
		return;
	set_up(&rows, ROOTED_ROWS);
	for (int i = 0;; i++) {
		snprintf(directory, sizeof(directory), "/program/%d", i);
		if (!set_up(&program, directory))
			break;
	}
	set_up(&side, ROOTED_SIDE);
}

void hooks_prepare(const struct rooted *r)
{
	const char *more, *wrong = hook(r, "prepare", &more);

	if (wrong) {
		SAY("fail its preparation failed: ", wrong, more);
		finish(1);
	}
}

void hooks_prepare_rows(void)
{
	if (rows.directory[0])
		hooks_prepare(&rows);
}
