/* SPDX-License-Identifier: MIT */
/*
 * Before the Snapshot: modules of the kernel, and a file system in memory, /disk, which has /tmp
 * and every program's /work (rooted.c). The host packs the files (docs/wire.md, Programs):
 * /modules/N with /modules/N.parameters, and /modules/N.cpu where the module is only for some CPUs;
 * /program/disk as of any program, which makes the file system that
 * /program/mount names; and its `device`, which says what to write where before the block device
 * is there. What fails is said; the host then measures nothing. Last, settings of the
 * kernel: those that are asked for are written before the Snapshot, and those that a workload may
 * change are restored for the next order.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest.h"
#include "program.h"

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

static void load_modules(void)
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
		bool is_loaded = !syscall(SYS_finit_module, fd, parameters, 0);
		int error = errno;
		close(fd);
		if (is_loaded)
			continue;
		char for_cpus[64];
		snprintf(for_cpus, sizeof(for_cpus), "/modules/%d.cpu", i);
		/* This CPU does not have the instructions, or the boot line has it in module_blacklist. */
		if ((error == ENODEV || error == EPERM) && !access(for_cpus, F_OK))
			continue;
		errno = error;
		failed("to load module ", path + strlen("/modules/"));
	}
}

/* Writes files before the block device is there, as the list `device` says. */
static bool device(const struct rooted *disk)
{
	char **words = rooted_words(disk, "device");

	if (words)
		mount("configfs", "/sys/kernel/config", "configfs", 0, NULL);
	return settings_write(words);
}

/* Says which code computes crc32c, of those that have the name the one of highest priority. */
static void checksums(void)
{
	static char best[128];
	char line[256], name[128] = "", driver[128] = "";
	long highest = -1, priority;
	FILE *list = fopen("/proc/crypto", "r");

	while (list && fgets(line, sizeof(line), list)) {
		if (sscanf(line, "name : %127s", name) == 1)
			driver[0] = 0;
		sscanf(line, "driver : %127s", driver);
		if (sscanf(line, "priority : %ld", &priority) != 1 || strcmp(name, "crc32c") ||
		    priority <= highest)
			continue;
		highest = priority;
		snprintf(best, sizeof(best), "%s", driver);
	}
	if (list)
		fclose(list);
	if (best[0])
		SAY("crc32c ", best);
}

static bool make_disk(struct rooted *disk)
{
	const char *wrong;

	if (!rooted_mount(disk) || !rooted_files(disk))
		wrong = strerror(errno);
	else
		wrong = rooted_wrong(rooted_run(disk, "words"), 0);
	if (wrong)
		SAY("failed to make the file system: ", wrong, rooted_last_words(disk));
	return !wrong;
}

/* The options of an overlay on directories of a tmpfs. */
static const char *layers(const char *more)
{
	static char options[640];
	static const char *const directories[] = { "/layers", "/layers/lower", "/layers/upper",
		                                   "/layers/work" };

	for (size_t i = 0; i < sizeof(directories) / sizeof(directories[0]); i++) {
		mkdir(directories[i], 0755);
		if (!i && mount("tmpfs", "/layers", "tmpfs", 0, NULL))
			failed("to mount ", "tmpfs");
	}
	snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%s,workdir=%s%s%s", directories[1],
	         directories[2], directories[3], more[0] ? "," : "", more);
	return options;
}

/* Writes out the files of the set-up: a program is not to pay for that. */
void disk_settle(void)
{
	int fd = open(DISK_TMP, O_RDONLY);

	if (fd >= 0)
		syncfs(fd);
	close(fd);
}

void disk(void)
{
	static char how[512];
	static struct rooted disk;

	load_modules();
	/* Its name, the options and the device, with a NUL behind each. */
	if (!contents("/program/mount", how, sizeof(how)))
		return;
	const char *options = how + strlen(how) + 1, *at = options + strlen(options) + 1;
	bool is_made = rooted_exists("/program", "disk");
	if (is_made && (!rooted_open(&disk, "/program/disk") || !device(&disk) || !make_disk(&disk)))
		return;
	if (!strcmp(how, "overlay"))
		options = layers(options);
	mkdir("/disk", 0755);
	if (mount(at, "/disk", how, 0, options) || mkdir(DISK_TMP, 0) || chmod(DISK_TMP, 01777) ||
	    mount(DISK_TMP, "/tmp", NULL, MS_BIND, NULL))
		failed("to mount ", how);
	else if (is_made)
		checksums();
}

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
