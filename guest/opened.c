/* SPDX-License-Identifier: MIT */
/*
 * The files that a program names: it runs under ptrace, and each path that a system call found, or
 * did not find, is said once. A path is absolute; what is no printable ASCII is %XX in it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "hash.h"
#include "opened.h"
#include "tracer.h"

enum { LONGEST = 1 << 12, SAID = 1 << 17, MOST_SAID = 1 << 16, NO_DIRECTORY = -1 };

/*
 * Calls that name a file that must be there, or that they make: which arguments are the directory
 * and the path.
 */
static const struct naming {
	uint64_t number;
	int directory, path;
} namings[] = {
	{ SYS_open, NO_DIRECTORY, 0 },     { SYS_openat, 0, 1 },
	{ SYS_openat2, 0, 1 },             { SYS_stat, NO_DIRECTORY, 0 },
	{ SYS_lstat, NO_DIRECTORY, 0 },    { SYS_newfstatat, 0, 1 },
	{ SYS_statx, 0, 1 },               { SYS_access, NO_DIRECTORY, 0 },
	{ SYS_faccessat, 0, 1 },           { SYS_faccessat2, 0, 1 },
	{ SYS_readlink, NO_DIRECTORY, 0 }, { SYS_readlinkat, 0, 1 },
	{ SYS_execve, NO_DIRECTORY, 0 },   { SYS_execveat, 0, 1 },
	{ SYS_chdir, NO_DIRECTORY, 0 },    { SYS_statfs, NO_DIRECTORY, 0 },
	{ SYS_truncate, NO_DIRECTORY, 0 }, { SYS_chroot, NO_DIRECTORY, 0 },
	{ SYS_mkdir, NO_DIRECTORY, 0 },    { SYS_mkdirat, 0, 1 },
	{ SYS_mknod, NO_DIRECTORY, 0 },    { SYS_mknodat, 0, 1 },
	{ SYS_link, NO_DIRECTORY, 1 },     { SYS_linkat, 2, 3 },
	{ SYS_symlink, NO_DIRECTORY, 1 },  { SYS_symlinkat, 1, 2 },
	{ SYS_rename, NO_DIRECTORY, 1 },   { SYS_renameat2, 2, 3 },
};

static const char *behind;
static uint64_t *said; /* hashes of the lines, in a table with open addressing */
static unsigned lines;

static const struct naming *naming_of(uint64_t number)
{
	for (size_t i = 0; i < sizeof(namings) / sizeof(namings[0]); i++)
		if (namings[i].number == number)
			return &namings[i];
	return NULL;
}

/* Reads a string of the program; a page that follows may not be there. */
static bool read_text(pid_t pid, uint64_t address, char *text)
{
	for (size_t length = 0; length < LONGEST;) {
		size_t more = PAGE - (address + length) % PAGE;
		if (more > LONGEST - length)
			more = LONGEST - length;
		struct iovec here = { text + length, more };
		struct iovec there = { (void *)(address + length), more };
		if (process_vm_readv(pid, &here, 1, &there, 1, 0) != (ssize_t)more)
			return false;
		if (memchr(text + length, 0, more))
			return true;
		length += more;
	}
	return false;
}

/* Puts the directory that a relative path begins in before it. */
static bool make_absolute(const struct task *task, int directory, char *path)
{
	char link[64], base[LONGEST];

	if (directory == NO_DIRECTORY || (int)task->arguments[directory] == AT_FDCWD)
		snprintf(link, sizeof(link), "/proc/%d/cwd", task->pid);
	else
		snprintf(link, sizeof(link), "/proc/%d/fd/%d", task->pid,
		         (int)task->arguments[directory]);
	ssize_t length = readlink(link, base, sizeof(base) - 1);
	if (length <= 0 || base[0] != '/')
		return false;
	base[length] = 0;
	/* The directory is as this process sees it, and the program's root may be below. */
	size_t root = strlen(behind);
	const char *from = base;
	if (!strncmp(base, behind, root) && (!base[root] || base[root] == '/'))
		from += root;
	size_t before = strlen(from), own = strlen(path);
	if (before + own + 2 > LONGEST)
		return false;
	memmove(path + before + 1, path, own + 1);
	memcpy(path, from, before);
	path[before] = '/';
	return true;
}

static void enter(struct task *task)
{
	const struct naming *naming = naming_of(task->number);

	if (!task->path)
		task->path = calloc(1, LONGEST);
	if (!task->path)
		return;
	task->path[0] = 0;
	if (!naming)
		return;
	bool is_named = read_text(task->pid, task->arguments[naming->path], task->path);
	/* An empty path is the descriptor itself. */
	if (!is_named || !task->path[0] ||
	    (task->path[0] != '/' && !make_absolute(task, naming->directory, task->path)))
		task->path[0] = 0;
}

static bool is_new(uint64_t hash)
{
	size_t at = hash % SAID;

	for (; said[at]; at = (at + 1) % SAID)
		if (said[at] == hash)
			return false;
	said[at] = hash;
	return true;
}

static void say_path(const char *what, const char *path)
{
	char line[PAGE];
	size_t used = (size_t)snprintf(line, sizeof(line), "%s ", what);

	if (!is_new(hash_bytes(hash_bytes(HASH_START, what, strlen(what)), path, strlen(path)) | 1))
		return;
	for (; *path && used < sizeof(line) - 8; path++) {
		bool is_plain = *path > ' ' && *path < 0x7f && *path != '%';
		used += (size_t)snprintf(line + used, 8, is_plain ? "%c" : "%%%02x",
		                         (unsigned char)*path);
	}
	if (*path)
		return; /* no line is so long */
	line[used++] = '\n';
	wire_write(line, used);
	lines++;
}

static void leave(struct task *task, int64_t result)
{
	if (!task->path || !task->path[0])
		return;
	if (result == -ENOENT)
		say_path("missing", task->path);
	else if (result >= 0 || result == -EEXIST)
		say_path(task->number == SYS_execve || task->number == SYS_execveat ? "executed" :
		                                                                      "opened",
		         task->path);
}

static bool is_full(void)
{
	return lines >= MOST_SAID;
}

static bool no_fault(struct task *task)
{
	(void)task;
	return false;
}

bool opened_run(pid_t program, const char *root, int *ended)
{
	static const struct tracer tracer = {
		.enter = enter, .leave = leave, .fault = no_fault, .is_full = is_full,
		.reuses_tasks = true,
	};

	behind = root;
	if (!said)
		said = calloc(SAID, sizeof(*said));
	if (!said)
		fail("calloc");
	return tracer_run(program, &tracer, ended);
}
