/* SPDX-License-Identifier: MIT */
/*
 * Settings of the guest's kernel: those that are asked for are written before the Snapshot, and
 * those that a workload may change are restored for the next order.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
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

bool settings_write(char *const *pairs)
{
	for (; pairs && pairs[0] && pairs[1]; pairs += 2) {
		size_t length = strlen(pairs[1]);
		if (!length) {
			mkdir(pairs[0], 0755);
			continue;
		}
		int fd = open(pairs[0], O_WRONLY);
		bool is_written = fd >= 0 && write(fd, pairs[1], length) == (ssize_t)length;
		int error = errno;
		close(fd);
		if (!is_written) {
			SAY("failed to write ", pairs[1], " to ", pairs[0], ": ", strerror(error));
			return false;
		}
	}
	return true;
}
