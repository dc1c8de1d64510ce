/* SPDX-License-Identifier: MIT */
/* Reads ktax.NAME=N from the boot line. A control's Sides differ by such a number. */
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
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

/*
 * Plants what the host must notice: with ktax.never=1 this program never reports and keeps the CPU
 * busy, with 2 it never reports and sleeps, and with 3 the machine is never idle.
 */
void never(void)
{
	uint64_t how = boot_param("never");

	if (how == 3 && !child()) {
		prctl(PR_SET_NAME, "never-idle");
		for (;;)
			__asm__ volatile("");
	}
	if (how == 1)
		for (;;)
			__asm__ volatile("pause");
	while (how == 2)
		sleep(3600);
}
