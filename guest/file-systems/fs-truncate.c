/* SPDX-License-Identifier: MIT */
/* Pages are written to a file, which is then cut to nothing. */
#include <fcntl.h>
#include <unistd.h>

#include "ktax.h"

enum { PAGES = 16 };

static int file;

static int fill_and_cut(void)
{
	static const char pages[PAGES * PAGE] = { 1 };

	if (pwrite(file, pages, sizeof(pages), 0) != sizeof(pages))
		return 1;
	return ftruncate(file, 0);
}

static void fs_truncate_run(const struct order *o)
{
	file = open(scratch(), O_WRONLY | O_CREAT, 0600);
	if (file < 0)
		fail("open");
	measure(o, 4, fill_and_cut, "files");
	close(file);
}

WORKLOAD("fs-truncate", fs_truncate_run);
