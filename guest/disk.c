/* SPDX-License-Identifier: MIT */
/*
 * Before the Snapshot: modules of the kernel, and a file system in memory over /tmp. The host packs
 * the files (docs/wire.md, Programs): /modules/N with /modules/N.parameters, and /program/disk as
 * of any program, which makes the file system that /program/mount names. What fails is said; the
 * host then measures nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

enum { MOST_WORDS = 64 };

static const char device[] = "/dev/ram0", root[] = "/program/disk/root";

static void failed(const char *what, const char *name)
{
	SAY("failed ", what, name, ": ", strerror(errno));
}

/* Reads a small file, zeroed behind its end; false if there is none. */
static bool contents(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t length = fd < 0 ? -1 : read(fd, text, size - 2);

	close(fd);
	memset(text + (length < 0 ? 0 : length), 0, size - (length < 0 ? 0 : (size_t)length));
	return length >= 0;
}

static void load(void)
{
	static char parameters[1024];
	char path[64];

	for (int i = 0;; i++) {
		snprintf(path, sizeof(path), "/modules/%d", i);
		int fd = open(path, O_RDONLY);
		if (fd < 0)
			return;
		snprintf(path, sizeof(path), "/modules/%d.parameters", i);
		contents(path, parameters, sizeof(parameters));
		if (syscall(SYS_finit_module, fd, parameters, 0))
			failed("to load module ", path + strlen("/modules/"));
		close(fd);
	}
}

static void split(char *text, char **words)
{
	for (int i = 0; *text && i < MOST_WORDS; i++, text += strlen(text) + 1)
		words[i] = text;
}

static const char *const systems[][2] = {
	{ "devtmpfs", "dev" }, { "proc", "proc" }, { "sysfs", "sys" },
};

static void mounted(bool there)
{
	char at[64];

	for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++) {
		snprintf(at, sizeof(at), "%s/%s", root, systems[i][1]);
		mkdir(at, 0755);
		if (there)
			mount(systems[i][0], at, systems[i][0], 0, NULL);
		else
			umount2(at, MNT_DETACH);
	}
}

static __attribute__((noreturn)) void become(int output)
{
	static char words_text[2048], environment_text[2048];
	static char *words[MOST_WORDS + 2], *environment[MOST_WORDS + 2];

	contents("/program/disk/words", words_text, sizeof(words_text));
	contents("/program/disk/env", environment_text, sizeof(environment_text));
	split(words_text, words);
	split(environment_text, environment);
	if (dup2(output, 1) >= 0 && dup2(output, 2) >= 0 && !chroot(root) && !chdir("/work"))
		execve(words[0], words + 1, environment);
	_exit(127);
}

/* The end of what it printed, on one line, is the reason if it fails. */
static bool make(void)
{
	char said[200] = "", block[sizeof(said)];
	ssize_t length;
	int ends[2], status = -1;

	mounted(true);
	if (pipe(ends))
		return false;
	pid_t pid = fork();
	if (!pid)
		become(ends[1]);
	close(ends[1]);
	while ((length = read(ends[0], block, sizeof(block) - 1)) > 0) {
		memcpy(said, block, (size_t)length);
		said[length] = 0;
	}
	close(ends[0]);
	waitpid(pid, &status, 0);
	mounted(false);
	for (char *c = said; *c; c++)
		if (*c == '\n')
			*c = c[1] ? '|' : 0;
	if (status)
		SAY("failed to make the file system: ", said);
	return !status;
}

void disk(void)
{
	static char how[512];

	load();
	if (!contents("/program/mount", how, sizeof(how)) || !make())
		return;
	if (mount(device, "/tmp", how, 0, how + strlen(how) + 1) || chmod("/tmp", 01777))
		failed("to mount ", how);
}
