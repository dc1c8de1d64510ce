/* SPDX-License-Identifier: MIT */
/* Programs in root directories of their own, their output, and hooks beside workloads. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"
#include "program.h"


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

static int copy_entry(const char *path, const struct stat *about, int type, struct FTW *at)
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
static int copy_attributes(const char *path, const struct stat *about, int type, struct FTW *at)
{
	const struct timespec times[] = { about->st_atim, about->st_mtim };
	const char *to = copied(path);

	(void)at;
	if (lchown(to, about->st_uid, about->st_gid) ||
	    (type != FTW_SL && chmod(to, about->st_mode & 07777)))
		return 1;
	return utimensat(AT_FDCWD, to, times, AT_SYMLINK_NOFOLLOW);
}

/*
 * Copies a directory with all that it has, to a path where nothing is: files, links and
 * directories, with owner, mode and times. False: errno says why.
 */
static bool copy_tree(const char *from, const char *to)
{
	from_root = from;
	to_root = to;
	return !nftw(from, copy_entry, MOST_OPEN, FTW_PHYS) &&
	       !nftw(from, copy_attributes, MOST_OPEN, FTW_PHYS | FTW_DEPTH);
}

enum { MOST_WORDS = 4096, NOT_EXECUTED = 127 };

/* Of a file that a native program writes: what it prints goes to one. */
static const rlim_t FILE_BYTES = 1ull << 30;

static const char *path(const char *directory, const char *name)
{
	static char text[256];

	snprintf(text, sizeof(text), "%s/%s", directory, name);
	return text;
}

bool rooted_exists(const char *directory, const char *name)
{
	return !access(path(directory, name), F_OK);
}

char **rooted_words(const struct rooted *r, const char *name)
{
	int fd = open(path(r->directory, name), O_RDONLY), error;
	struct stat about = { 0 };
	char **words = calloc(MOST_WORDS + 1, sizeof(*words)), *text = NULL;
	size_t count = 0;

	if (fd >= 0 && !fstat(fd, &about))
		text = calloc(1, (size_t)about.st_size + 1);
	if (!words || !text || read(fd, text, (size_t)about.st_size) != about.st_size) {
		error = errno;
		close(fd);
		errno = error;
		return NULL;
	}
	close(fd);
	for (char *word = text; word < text + about.st_size; word += strlen(word) + 1) {
		if (count == MOST_WORDS) {
			errno = E2BIG;
			return NULL;
		}
		words[count++] = word;
	}
	return words;
}

bool rooted_open(struct rooted *r, const char *directory)
{
	snprintf(r->directory, sizeof(r->directory), "%s", directory);
	snprintf(r->root, sizeof(r->root), "%s/root", directory);
	r->environment = rooted_words(r, "env");
	return r->environment;
}

/* /program/N/root/work goes to /disk/N, with its files. */
static bool move_to_disk(const struct rooted *r)
{
	char on_disk[64], work[256];

	snprintf(on_disk, sizeof(on_disk), "/disk/%s", strrchr(r->directory, '/') + 1);
	snprintf(work, sizeof(work), "%s", path(r->root, "work"));
	return copy_tree(work, on_disk) && !mount(on_disk, work, NULL, MS_BIND, NULL);
}

bool rooted_mount(const struct rooted *r)
{
	static const char *const systems[][3] = {
		{ "devtmpfs", "dev", NULL },       { "proc", "proc", NULL },
		{ "sysfs", "sys", NULL },          { "tmpfs", "dev/shm", "mode=1777" },
		{ "tmpfs", "run", "mode=755" },
	};

	/* Who makes a namespace of mounts wants its root to be one. */
	if (mount(r->root, r->root, NULL, MS_BIND, NULL))
		return false;
	for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++) {
		const char *at = path(r->root, systems[i][1]);
		mkdir(at, 0755);
		if (mount(systems[i][0], at, systems[i][0], 0, systems[i][2]))
			return false;
	}
	bool is_on_disk = rooted_exists(DISK_TMP, "");
	/* Rows have their files in /tmp. */
	bool is_shared = is_on_disk || !strcmp(r->directory, ROOTED_ROWS) ||
	                 !strcmp(r->directory, ROOTED_SIDE);
	if (is_shared && mount("/tmp", path(r->root, "tmp"), NULL, MS_BIND, NULL))
		return false;
	return !is_on_disk || move_to_disk(r);
}

/* Sets the clock to that of the list `clock`, if it is behind: no file is from the future. */
static void rooted_clock(const struct rooted *r)
{
	char **words = rooted_words(r, "clock");
	struct timespec newest = { .tv_sec = words && words[0] ? strtoll(words[0], NULL, 10) : 0 };

	if (newest.tv_sec > time(NULL))
		clock_settime(CLOCK_REALTIME, &newest);
}

/* Files that a program fills have a file system of their own, which ends before the memory does. */
bool rooted_files(struct rooted *r)
{
	char options[32];
	const int flags = O_RDWR | O_CREAT | O_TRUNC | O_APPEND;

	if (!rooted_exists(r->directory, "out")) {
		snprintf(options, sizeof(options), "size=%dm", OUTPUT_MIB);
		mkdir(path(r->directory, "out"), 0755);
		if (mount("tmpfs", path(r->directory, "out"), "tmpfs", 0, options))
			return false;
	}
	r->input = open(path(r->directory, "stdin"), O_RDONLY);
	r->output = open(path(r->directory, "out/stdout"), flags, 0666);
	r->errors = open(path(r->directory, "out/stderr"), flags, 0666);
	return r->input >= 0 && r->output >= 0 && r->errors >= 0;
}

static void rooted_close(const struct rooted *r)
{
	close(r->input);
	close(r->output);
	close(r->errors);
}

bool rooted_empty(const struct rooted *r)
{
	return !ftruncate(r->output, 0) && !ftruncate(r->errors, 0) && !lseek(r->input, 0, SEEK_SET);
}

bool rooted_enter(const struct rooted *r, uid_t user)
{
	signal(SIGPIPE, SIG_DFL);
	if (in_guest)
		setsid(); /* natively it stays in the group that the janitor ends */
	if (dup2(r->input, 0) < 0 || dup2(r->output, 1) < 0 || dup2(r->errors, 2) < 0)
		return false;
	for (int fd = 3; fd < 16; fd++)
		close(fd);
	if (!in_guest)
		return !setrlimit(RLIMIT_FSIZE, &(struct rlimit){ FILE_BYTES, FILE_BYTES });
	return !chroot(r->root) && !chdir("/work") && !setgroups(0, NULL) && !setgid(user) &&
	       !setuid(user);
}

int rooted_run(const struct rooted *r, const char *name)
{
	char **words = rooted_words(r, name);
	int status;

	if (!words || !words[0] || !rooted_empty(r))
		return -1;
	pid_t pid = child();
	if (!pid) {
		if (rooted_enter(r, 0))
			execve(words[0], words + 1, r->environment);
		_exit(NOT_EXECUTED);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static bool is_full(int fd)
{
	struct stat about;

	return fstat(fd, &about) || about.st_size >= (off_t)(OUTPUT_MIB - 1) << 20;
}

bool rooted_is_full(const struct rooted *r)
{
	return is_full(r->output) || is_full(r->errors);
}

const char *rooted_wrong(int status, uint64_t wanted)
{
	static char what[128];

	if (status == -1)
		return "it cannot be executed: ";
	if (WIFSIGNALED(status))
		snprintf(what, sizeof(what), "it ended by signal %d (%s): ", WTERMSIG(status),
		         strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) != wanted)
		snprintf(what, sizeof(what), "its exit status is %d, expected %d: ",
		         WEXITSTATUS(status), (int)wanted);
	else
		return NULL;
	return what;
}

const char *rooted_last_words(const struct rooted *r)
{
	static char text[320];
	int fd = lseek(r->errors, 0, SEEK_END) > 0 ? r->errors : r->output;
	off_t size = lseek(fd, 0, SEEK_END), begin = size > 300 ? size - 300 : 0;
	ssize_t length = pread(fd, text, 300, begin);

	for (ssize_t i = 0; i < length; i++)
		if (text[i] == '\n')
			text[i] = i + 1 < length ? '|' : 0;
	return length > 0 ? text : "it printed nothing";
}

/* A line of the wire has 4096 bytes, and an escaped byte has four. */
enum { PRINT_LINE = 1000, PRINT_HALF = 32 << 10 };

static size_t escape(char *to, char c)
{
	static const char digits[] = "0123456789abcdef";

	if (c >= ' ' && c <= '~' && c != '\\') {
		*to = c;
		return 1;
	}
	memcpy(to, "\\x", 2);
	to[2] = digits[(unsigned char)c >> 4];
	to[3] = digits[c & 15];
	return 4;
}

/* Lines of this name with the bytes of a file from `at` to `end`. */
static void print_part(const char *name, int fd, off_t at, off_t end)
{
	static char text[PRINT_LINE], line[16 + 4 * PRINT_LINE];

	while (at < end) {
		size_t most = end - at < PRINT_LINE ? (size_t)(end - at) : PRINT_LINE, used;
		ssize_t length = pread(fd, text, most, at);
		if (length <= 0)
			return;
		used = (size_t)snprintf(line, 16, "%s ", name);
		for (ssize_t i = 0; i < length; i++)
			used += escape(line + used, text[i]);
		line[used++] = '\n';
		wire_write(line, used);
		at += length;
	}
}

static void print_file(const char *name, int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	char cut[32];

	if (size <= 2 * PRINT_HALF) {
		print_part(name, fd, 0, size);
		return;
	}
	print_part(name, fd, 0, PRINT_HALF);
	snprintf(cut, sizeof(cut), "cut %s ", name);
	say_number(cut, (uint64_t)(size - 2 * PRINT_HALF));
	print_part(name, fd, size - PRINT_HALF, size);
}

void rooted_print(const struct rooted *r)
{
	print_file("stdout", r->output);
	print_file("stderr", r->errors);
}

/*
 * Hooks, commands of the user's: /program/N/setup before the Snapshot and /program/N/prepare
 * before each run of program N, in its root directory; /program/rows has those of all other rows.
 * /program/sysctl has pairs of a file and what is written to it first; /program/side has the set-up
 * of one side, which runs after that of both.
 */
static struct rooted rows_root;

/* Runs one of them, if it is there; NULL, or what is wrong, and what it said in `more`. */
static const char *hook(const struct rooted *r, const char *name, const char **more)
{
	struct rooted own = *r;
	const char *wrong;

	*more = "";
	if (!rooted_exists(r->directory, name))
		return NULL;
	if (!rooted_files(&own))
		return strerror(errno);
	wrong = rooted_wrong(rooted_run(&own, name), 0);
	if (wrong)
		*more = rooted_last_words(&own);
	rooted_close(&own);
	return wrong;
}

static bool set_up(struct rooted *r, const char *directory)
{
	const char *wrong, *more = "";

	if (!rooted_exists(directory, "root"))
		return false;
	if (!rooted_open(r, directory) || !rooted_mount(r))
		wrong = errno == ENOSPC ? "its files do not fit on the disk" : strerror(errno);
	else {
		rooted_clock(r);
		wrong = hook(r, "setup", &more);
	}
	if (wrong)
		SAY("failed the set-up: ", wrong, more);
	return true;
}

void hooks_setup(void)
{
	static struct rooted program, side;
	static const struct rooted all = { .directory = "/program" };
	char directory[32];

	if (!settings_write(rooted_words(&all, "sysctl")))
		return;
	set_up(&rows_root, ROOTED_ROWS);
	for (int i = 0;; i++) {
		snprintf(directory, sizeof(directory), "/program/%d", i);
		if (!set_up(&program, directory))
			break;
	}
	set_up(&side, ROOTED_SIDE);
}

void hooks_prepare(const struct rooted *r)
{
	const char *more, *wrong = hook(r, "prepare", &more);

	if (wrong) {
		SAY("fail its preparation failed: ", wrong, more);
		finish(1);
	}
}

void hooks_prepare_rows(void)
{
	if (rows_root.directory[0])
		hooks_prepare(&rows_root);
}
