/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copy.h"

enum { MOST_OPEN = 16 };

static const char *from_root, *to_root;

/* Where a path of the one tree is in the other. */
static const char *copied(const char *path)
{
	static char to[PATH_MAX];

	snprintf(to, sizeof(to), "%s%s", to_root, path + strlen(from_root));
	return to;
}

static bool copy_bytes(int out, int in, off_t size)
{
	off_t done = 0;
	ssize_t sent = 1;

	while (done < size && sent > 0)
		sent = sendfile(out, in, &done, (size_t)(size - done));
	if (!sent)
		errno = EIO; /* the file has become shorter */
	return done == size;
}

static bool copy_file(const char *path, const char *to, const struct stat *about)
{
	int in = open(path, O_RDONLY);
	int out = in < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_EXCL, 0600);
	bool is_whole = out >= 0 && copy_bytes(out, in, about->st_size);
	int error = errno;

	if (out >= 0 && close(out) && is_whole) {
		error = errno;
		is_whole = false;
	}
	if (in >= 0)
		close(in);
	errno = error;
	return is_whole;
}

static bool copy_link(const char *path, const char *to)
{
	char target[PATH_MAX];
	ssize_t length = readlink(path, target, sizeof(target) - 1);

	target[length < 0 ? 0 : length] = 0;
	return length >= 0 && !symlink(target, to);
}

static int make(const char *path, const struct stat *about, int type, struct FTW *at)
{
	const char *to = copied(path);

	(void)at;
	if (type == FTW_D)
		return mkdir(to, 0700);
	if (type == FTW_SL)
		return !copy_link(path, to);
	if (type == FTW_F && S_ISREG(about->st_mode))
		return !copy_file(path, to, about);
	errno = EINVAL; /* the host packs nothing else */
	return 1;
}

/* After everything is there: a file in a directory changes the directory's times. */
static int dress(const char *path, const struct stat *about, int type, struct FTW *at)
{
	const struct timespec times[] = { about->st_atim, about->st_mtim };
	const char *to = copied(path);

	(void)at;
	if (lchown(to, about->st_uid, about->st_gid) ||
	    (type != FTW_SL && chmod(to, about->st_mode & 07777)))
		return 1;
	return utimensat(AT_FDCWD, to, times, AT_SYMLINK_NOFOLLOW);
}

bool copy_tree(const char *from, const char *to)
{
	from_root = from;
	to_root = to;
	return !nftw(from, make, MOST_OPEN, FTW_PHYS) &&
	       !nftw(from, dress, MOST_OPEN, FTW_PHYS | FTW_DEPTH);
}
