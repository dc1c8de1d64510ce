/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"
#include "tree.h"

static void make_files(int directory, uint64_t files)
{
	char name[32];

	for (uint64_t i = 0; i < files; i++) {
		snprintf(name, sizeof(name), "%lu.%s", i, i ? "txt" : "wav");
		int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
		if (fd < 0 || ftruncate(fd, i + 1)) /* sizes without contents */
			fail("creat");
		close(fd);
	}
}

/* The directories in groups of 50; the first of the files in each is a recording. */
struct tree tree_make(int root, uint64_t directories, uint64_t files)
{
	const uint64_t group = 50;
	char name[64];

	for (uint64_t i = 0; i < directories; i++) {
		snprintf(name, sizeof(name), "%lu", i / group);
		if (i % group == 0 && mkdirat(root, name, 0700))
			fail("mkdir");
		snprintf(name, sizeof(name), "%lu/%lu", i / group, i % group);
		if (mkdirat(root, name, 0700))
			fail("mkdir");
		int directory = openat(root, name, O_RDONLY | O_DIRECTORY);
		if (directory < 0)
			fail("open");
		make_files(directory, files);
		close(directory);
	}
	return (struct tree){
		.directories = directories + (directories + group - 1) / group,
		.files = directories * files,
		.recordings = directories,
		.bytes = directories * (files * (files + 1) / 2),
	};
}

static void look(int parent, const char *name, struct tree *seen)
{
	struct stat st;

	if (syscall(SYS_newfstatat, parent, name, &st, AT_SYMLINK_NOFOLLOW)) {
		seen->failed++;
	} else if (S_ISDIR(st.st_mode)) {
		int directory = syscall(SYS_openat, parent, name, O_RDONLY | O_DIRECTORY);
		seen->directories++;
		tree_walk(directory, seen);
		syscall(SYS_close, directory);
	} else {
		seen->files++;
		seen->recordings += strstr(name, ".wav") != NULL;
		seen->bytes += st.st_size;
	}
}

/* As find does that must know more than names: no file type of the directory is believed. */
void tree_walk(int directory, struct tree *seen)
{
	char batch[4096] __attribute__((aligned(8)));
	long length;

	while ((length = syscall(SYS_getdents64, directory, batch, sizeof(batch))) > 0)
		for (long at = 0; at < length;) {
			const struct dirent64 *entry = (void *)(batch + at);
			at += entry->d_reclen;
			if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
				look(directory, entry->d_name, seen);
		}
	seen->failed += length < 0;
}
