/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"

static const struct { const char *type, *at; } mounts[] = {
	{ "proc", "/proc" },
	{ "sysfs", "/sys" },
	{ "devtmpfs", "/dev" },
	{ "debugfs", "/sys/kernel/debug" },
	{ "tracefs", "/sys/kernel/tracing" },
};

static _Noreturn void off(void)
{
	fflush(stdout);
	sync();
	/* Not every machine can be switched off, but QEMU ends when one is reset. */
	reboot(RB_AUTOBOOT);
	abort();
}

long must(long result, const char *what)
{
	if (result < 0) {
		printf("host: %s: %s\n", what, strerror(errno));
		off();
	}
	return result;
}

void host_begin(void)
{
	int console;

	for (size_t i = 0; i < sizeof mounts / sizeof mounts[0]; i++) {
		mkdir(mounts[i].at, 0755);
		/* Not every kernel has each of them. */
		mount(mounts[i].type, mounts[i].at, mounts[i].type, 0, NULL);
	}
	console = must(open("/dev/console", O_RDWR), "/dev/console");
	for (int fd = 0; fd < 3; fd++)
		dup2(console, fd);
	puts("host: begin");
}

void host_end(void)
{
	puts("host: end");
	off();
}

void show(const char *title, const char *path)
{
	static char text[1 << 16];
	int file = must(open(path, O_RDONLY), path);
	ssize_t length;

	printf("== %s\n", title);
	while ((length = must(read(file, text, sizeof text), path)) > 0)
		fwrite(text, 1, length, stdout);
	close(file);
	puts("==");
}

void spin(unsigned long iterations)
{
	while (iterations--)
		asm volatile("");
}

void put(const char *path, const char *text)
{
	int file = must(open(path, O_WRONLY), path);

	must(write(file, text, strlen(text)), path);
	close(file);
}
