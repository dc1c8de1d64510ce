/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest.h"

static char directory[] = "/tmp/ktax-XXXXXX";
static char file[sizeof(directory) + 5];

const char *scratch(void)
{
	/* A random name hashes differently in each Run, so the guest, which is alone, has none. */
	if (in_guest ? mkdir(directory, 0700) : !mkdtemp(directory))
		fail("mkdir");
	strcpy(file, directory);
	return strcat(file, "/file");
}

void scratch_remove(void)
{
	if (!file[0])
		return;
	unlink(file);
	rmdir(directory);
}
