/* SPDX-License-Identifier: MIT */
/* A copy of this machine in which a program may do what it likes. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

enum { LONGEST = 4096, MOST_MOUNTS = 4096 };

static char *mounts[MOST_MOUNTS + 1]; /* where something is mounted on this machine */
static int memory = -1;               /* the file system that has what is written */
static char new_root[64];
static unsigned layers;

/* The path of a file of this machine in the new root directory. */
static const char *inside(const char *path)
{
	static char text[sizeof(new_root) + LONGEST];

	snprintf(text, sizeof(text), "%s%s", new_root, path);
	return text;
}

/* Undoes the \ooo of mountinfo. */
static void decode(char *text)
{
	char *to = text;

	for (; *text; text++)
		if (text[0] == '\\' && text[1] && text[2] && text[3]) {
			*to++ = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 | (text[3] - '0'));
			text += 3;
		} else {
			*to++ = *text;
		}
	*to = 0;
}

static void read_mounts(void)
{
	FILE *file = fopen("/proc/self/mountinfo", "r");
	char *line = NULL;
	size_t size = 0, count = 0;

	if (!file)
		fail("/proc/self/mountinfo");
	while (count < MOST_MOUNTS && getline(&line, &size, file) > 0) {
		char path[LONGEST];
		if (sscanf(line, "%*s %*s %*s %*s %4095s", path) != 1)
			continue;
		decode(path);
		mounts[count++] = strdup(path);
	}
	free(line);
	fclose(file);
}

static bool has_mounts_below(const char *path)
{
	size_t length = strlen(path);

	for (char **mount = mounts; *mount; mount++)
		if (!strncmp(*mount, path, length) && (*mount)[length] == '/')
			return true;
	return false;
}

/* Gives a new directory the mode and, where this user may, the owner of another one. */
static void copy_mode(const char *path, int at, const char *name)
{
	struct stat about;

	if (stat(path, &about))
		return;
	(void)!fchownat(at, name, about.st_uid, about.st_gid, 0);
	fchmodat(at, name, about.st_mode & 07777, 0);
}

/* Also what is mounted below. What another user has locked keeps its flags. */
static void make_read_only(const char *path)
{
	struct mount_attr attributes = { .attr_set = MOUNT_ATTR_RDONLY };

	if (mount_setattr(AT_FDCWD, path, AT_RECURSIVE, &attributes, sizeof(attributes)))
		mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL);
}

/* A directory of this machine whose changes stay in memory; where that cannot be, it has none. */
static void overlay(const char *path, const char *as)
{
	char options[256], upper[32], work[32];

	mkdir(inside(as), 0755);
	snprintf(upper, sizeof(upper), "upper%u", layers);
	snprintf(work, sizeof(work), "work%u", layers);
	layers++;
	if (mkdirat(memory, upper, 0755) || mkdirat(memory, work, 0755))
		fail("mkdir");
	copy_mode(path, memory, upper); /* whose mode and owner the directory has */
	/* Relative to the current directory and to a descriptor: a path may have commas and colons. */
	snprintf(options, sizeof(options),
	         "userxattr,lowerdir=.,upperdir=/proc/self/fd/%d/%s,workdir=/proc/self/fd/%d/%s",
	         memory, upper, memory, work);
	if (chdir(path))
		return;
	if (!mount("overlay", inside(as), "overlay", 0, options))
		return;
	/* No overlay of this file system: it can only be read. */
	mount(path, inside(as), NULL, MS_BIND | MS_REC, NULL);
	make_read_only(inside(as));
}

static bool is_within(const char *path, const char *directory)
{
	size_t length = strlen(directory);

	return !strncmp(path, directory, length) && (!path[length] || path[length] == '/');
}

static bool is_made_anew(const char *path)
{
	static const char *const names[] = { "/proc", "/sys", "/dev", "/run" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (is_within(path, names[i]))
			return true;
	return false;
}

static void link_again(const char *path)
{
	char target[LONGEST];
	ssize_t length = readlink(path, target, sizeof(target) - 1);

	if (length > 0) {
		target[length] = 0;
		(void)!symlink(target, inside(path));
	}
}

static void bind_file(const char *path)
{
	close(open(inside(path), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	mount(path, inside(path), NULL, MS_BIND, NULL);
	make_read_only(inside(path));
}

/* An overlay has one file system, so a directory with mounts below is made of its parts. */
static void copy_directory(const char *path)
{
	DIR *directory = opendir(*path ? path : "/");
	struct stat about;

	mkdir(inside(path), 0755);
	copy_mode(*path ? path : "/", AT_FDCWD, inside(path));
	for (struct dirent *entry; directory && (entry = readdir(directory));) {
		char below[LONGEST];
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (snprintf(below, sizeof(below), "%s/%s", path, entry->d_name) >= LONGEST ||
		    is_made_anew(below) || lstat(below, &about))
			continue;
		if (S_ISLNK(about.st_mode))
			link_again(below);
		else if (S_ISDIR(about.st_mode) && has_mounts_below(below))
			copy_directory(below);
		else if (S_ISDIR(about.st_mode))
			overlay(below, below);
		else if (S_ISREG(about.st_mode))
			bind_file(below);
	}
	if (directory)
		closedir(directory);
}

/* Devices that do nothing to anybody else. */
static void make_devices(void)
{
	static const char *const nodes[] = { "/dev/null",   "/dev/zero",    "/dev/full",
		                             "/dev/random", "/dev/urandom", "/dev/tty" };
	static const char *const links[][2] = {
		{ "/proc/self/fd", "/dev/fd" },       { "/proc/self/fd/0", "/dev/stdin" },
		{ "/proc/self/fd/1", "/dev/stdout" }, { "/proc/self/fd/2", "/dev/stderr" },
	};

	mkdir(inside("/dev"), 0755);
	mount("tmpfs", inside("/dev"), "tmpfs", 0, "mode=755");
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		close(open(inside(nodes[i]), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
		mount(nodes[i], inside(nodes[i]), NULL, MS_BIND, NULL);
	}
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		(void)!symlink(links[i][0], inside(links[i][1]));
	mkdir(inside("/dev/shm"), 01777);
	mount("tmpfs", inside("/dev/shm"), "tmpfs", 0, "mode=1777");
	mkdir(inside("/dev/pts"), 0755);
	mount("devpts", inside("/dev/pts"), "devpts", 0, "newinstance,ptmxmode=0666");
	(void)!symlink("pts/ptmx", inside("/dev/ptmx"));
}

/* Its settings belong to the whole machine, and whoever is root here may be so there. */
static void make_processes(void)
{
	static const char *const settings[] = { "/proc/sys", "/proc/sysrq-trigger", "/proc/irq",
		                                "/proc/bus", "/proc/fs", "/proc/mtrr" };

	mkdir(inside("/proc"), 0555);
	if (mount("proc", inside("/proc"), "proc", 0, NULL)) {
		/* Where parts of it are hidden, as in a container, there is no other than that one. */
		if (mount("/proc", inside("/proc"), NULL, MS_BIND | MS_REC, NULL))
			fail("a file system of processes");
		make_read_only(inside("/proc"));
		return;
	}
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (!mount(inside(settings[i]), inside(settings[i]), NULL, MS_BIND, NULL))
			make_read_only(inside(settings[i]));
}

static void make_systems(void)
{
	make_devices();
	make_processes();
	mkdir(inside("/sys"), 0555);
	mount("/sys", inside("/sys"), NULL, MS_BIND | MS_REC, NULL);
	make_read_only(inside("/sys"));
	mkdir(inside("/run"), 0755);
	mount("tmpfs", inside("/run"), "tmpfs", 0, "mode=755");
}

static void make_work(const char *here)
{
	char from[sizeof(new_root) + LONGEST];

	if (is_made_anew(here)) {
		overlay(here, "/work");
		if (chdir(inside("/work")))
			fail(here);
		return;
	}
	if (is_within(here, "/work")) {
		if (chdir(inside(here)))
			fail(here);
		return;
	}
	snprintf(from, sizeof(from), "%s", inside(here));
	mkdir(inside("/work"), 0755);
	if (mount(from, inside("/work"), NULL, MS_BIND, NULL) || chdir(inside("/work")))
		fail("/work");
}

static void make_root(const char *scratch)
{
	static char here[LONGEST];
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	ioctl(fd, SIOCSIFFLAGS, &lo);
	close(fd);
	if (!getcwd(here, sizeof(here)))
		fail("the current directory");
	read_mounts();
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", scratch, "tmpfs", 0, "mode=755"))
		fail("mount");
	memory = open(scratch, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(new_root, sizeof(new_root), "/proc/self/fd/%d/root", memory);
	if (memory < 0 || mkdirat(memory, "root", 0755))
		fail(scratch);
	copy_directory("");
	make_systems();
	make_work(here);
	if (chroot(new_root))
		fail("chroot");
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool is_written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return is_written;
}

/* All users where this one may have them all, else one: who runs this is who the program is. */
static bool map_users(pid_t child, uid_t user)
{
	char path[64], map[64];
	bool is_root = !geteuid();

	snprintf(path, sizeof(path), "/proc/%d/setgroups", child);
	if (!is_root && !write_text(path, "deny"))
		return false;
	const struct {
		const char *file;
		unsigned id;
	} maps[] = { { "uid_map", geteuid() }, { "gid_map", getegid() } };
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", child, maps[i].file);
		snprintf(map, sizeof(map), "%u %u 1\n", user, maps[i].id);
		if (!(is_root && write_text(path, "0 0 4294967295\n")) && !write_text(path, map))
			return false;
	}
	return true;
}

/* Ends as this process does. */
static __attribute__((noreturn)) void end_with(pid_t child)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

void sandbox_enter(const char *scratch, uid_t user)
{
	const int flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
	                  CLONE_NEWUTS;
	int ready[2], mapped[2];
	char byte = 0;

	if (pipe2(ready, O_CLOEXEC) || pipe2(mapped, O_CLOEXEC))
		fail("pipe");
	pid_t child = fork();
	if (child < 0)
		fail("fork");
	if (child) {
		close(ready[1]);
		close(mapped[0]);
		if (read(ready[0], &byte, 1) == 1 && map_users(child, user))
			(void)!write(mapped[1], &byte, 1);
		close(mapped[1]);
		end_with(child);
	}
	close(ready[0]);
	close(mapped[1]);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(flags))
		fail("namespaces of its own");
	if (write(ready[1], &byte, 1) != 1 || read(mapped[0], &byte, 1) != 1)
		fail("users in a namespace of its own");
	pid_t first = fork(); /* process 1 of the new namespace */
	if (first < 0)
		fail("fork");
	if (first)
		end_with(first);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setgid(0) || setuid(0))
		errno = 0; /* there is one user alone */
	make_root(scratch);
}
