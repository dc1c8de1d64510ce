/* SPDX-License-Identifier: MIT */
/* Controls that differ by Side do so by a number on the boot line: ktax.NAME=N. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

uint64_t boot_param(const char *name)
{
	static char line[4096];
	static const char prefix[] = " ktax.";
	int fd = open("/proc/cmdline", O_RDONLY);
	ssize_t length = read(fd, line + 1, sizeof(line) - 2);
	uint64_t value = 0;

	close(fd);
	line[0] = ' ';
	line[length > 0 ? length + 1 : 1] = 0;
	for (const char *at = line; (at = strstr(at, prefix)); ) {
		at += sizeof(prefix) - 1;
		if (strncmp(at, name, strlen(name)) || at[strlen(name)] != '=')
			continue;
		for (at += strlen(name) + 1; *at >= '0' && *at <= '9'; at++)
			value = value * 10 + (*at - '0');
	}
	return value;
}

/* A guest that never reports, executing or asleep. */
void never(void)
{
	uint64_t how = boot_param("never");

	if (how == 1)
		for (;;)
			__asm__ volatile("pause");
	while (how)
		sleep(3600);
}
