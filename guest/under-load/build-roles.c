/* SPDX-License-Identifier: MIT */
/* The other programs of the job: cc runs cc1 and as for one unit, ld joins the objects of all. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "build.h"

/* Waits for it, and reads what it has to say on its standard error until then. */
static bool execute(const char *role, char **argv)
{
	char said[256];
	int errors[2];

	if (pipe2(errors, O_CLOEXEC))
		return false;
	argv[ROLE_NAME] = (char *)role;
	pid_t pid = child();
	if (!pid) {
		syscall(SYS_dup2, errors[1], STDERR_FILENO);
		syscall(SYS_execve, argv[PROGRAM], argv, (char *[]){ NULL });
		syscall(SYS_exit_group, 127);
	}
	close(errors[1]);
	while (read(errors[0], said, sizeof(said)) > 0)
		;
	close(errors[0]);
	return pid > 0 && child_succeeded(pid);
}

static int cc(int argc, char **argv)
{
	const int looks = 20; /* for its programs, directories and configuration */
	char name[PATH_BYTES];
	struct stat s;

	if (argc != ARGUMENTS)
		return 2;
	for (int i = 0; i < looks; i++)
		if (stat(build_include[i % SEARCHED], &s))
			return 1;
	if (!execute("role:cc1", argv) || !execute("role:as", argv))
		return 1;
	return unlink(build_path(name, "out/", atoll(argv[UNIT]), ".s"));
}
ROLE("cc", cc);

static int as(int argc, char **argv)
{
	static char text[LISTING], object[OBJECT];
	struct evidence *did = (void *)text;
	char name[PATH_BYTES];

	if (argc != ARGUMENTS)
		return 2;
	uint64_t unit = atoll(argv[UNIT]);
	if (!build_read(build_path(name, "out/", unit, ".s"), text, LISTING))
		return 1;
	did->pages += build_grow(atoll(argv[HEAP]) * AS_PAGES);
	did->hash = build_hash(did->hash, text, LISTING);
	build_fill(object, OBJECT, did->hash);
	*(struct evidence *)object = *did;
	return !build_write(build_path(name, "out/", unit, ".o"), object, OBJECT);
}
ROLE("as", as);

/* UNIT is how many there are. */
static int ld(int argc, char **argv)
{
	char name[PATH_BYTES];

	if (argc != ARGUMENTS)
		return 2;
	uint64_t units = atoll(argv[UNIT]);
	int fd = open("out/linked", O_CREAT | O_EXCL | O_RDWR, 0600);
	if (fd < 0 || ftruncate(fd, units * OBJECT))
		return 1;
	char *linked = mmap(NULL, units * OBJECT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (linked == MAP_FAILED)
		return 1;
	for (uint64_t i = 0; i < units; i++)
		if (!build_read(build_path(name, "out/", i, ".o"), linked + i * OBJECT, OBJECT))
			return 1;
	return munmap(linked, units * OBJECT) || close(fd);
}
ROLE("ld", ld);
