/* SPDX-License-Identifier: MIT */
/* Restores the settings that a workload may change in a guest, for the next order. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

enum { SETTINGS = 2 };

static const char *const files[SETTINGS] = {
	"/proc/sys/vm/nr_hugepages", "/sys/kernel/mm/transparent_hugepage/enabled",
};
static char texts[SETTINGS][64], *values[SETTINGS];

/* A setting that the kernel does not have stays empty and is not written. */
void settings_note(void)
{
	for (int i = 0; i < SETTINGS; i++) {
		int fd = open(files[i], O_RDONLY);
		if (read(fd, texts[i], sizeof(texts[i]) - 1) < 0)
			texts[i][0] = 0;
		close(fd);
		/* Of `always [madvise] never` the word in brackets. */
		char *word = strchr(texts[i], '[');
		values[i] = word ? word + 1 : texts[i];
		values[i][strcspn(values[i], "]\n")] = 0;
	}
}

void settings_restore(void)
{
	for (int i = 0; i < SETTINGS; i++) {
		int fd = values[i][0] ? open(files[i], O_WRONLY) : -1;
		(void)!write(fd, values[i], strlen(values[i]));
		close(fd);
	}
}
