/* SPDX-License-Identifier: MIT */
/*
 * The job that is shaped like a compilation: many short programs read, compute and write files
 * below the working directory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build.h"
#include "tools.h"

/* Decimal digits between two texts; without stdio, as all of this. */
static const char *build_path(char *to, const char *before, uint64_t n, const char *after)
{
	char digits[21];
	char *at = digits + sizeof(digits) - 1;

	*at = 0;
	do
		*--at = '0' + n % 10;
	while (n /= 10);
	return strcat(strcat(strcpy(to, before), at), after);
}

/* A page at a time, as a C library's buffered output comes. */
bool build_write(const char *name, const void *from, size_t size)
{
	int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	bool done = fd >= 0;

	for (size_t at = 0; done && at < size; at += PAGE) {
		ssize_t piece = size - at < PAGE ? size - at : PAGE;
		done = write(fd, (const char *)from + at, piece) == piece;
	}
	return fd >= 0 && !close(fd) && done;
}

bool build_read(const char *name, void *to, size_t size)
{
	int fd = open(name, O_RDONLY);

	return fd >= 0 && read(fd, to, size) == (ssize_t)size && !close(fd);
}

static void fill(void *to, size_t size, uint64_t seed)
{
	for (size_t at = 0; at + sizeof(seed) <= size; at += sizeof(seed)) {
		uint64_t word = splitmix64(&seed);
		memcpy((char *)to + at, &word, sizeof(word));
	}
}

/* Arguments of a process of the job: strings, from UNIT on decimal numbers. */
enum { ROLE_NAME, PROGRAM, UNIT, HEADERS, HEAP, BURN, ARGUMENTS };

/* The beginning of each listing and each object: what its unit did. */
struct evidence { uint64_t units, headers, missed, bytes, pages, hash; };

static const char *const include_directories[SEARCHED] = {
	"include/0/", "include/1/", "include/2/", "include/3/",
};

/* The compiler of the job, cc1: headers in, memory, work of its own, a listing out. */
static char text[LISTING]; /* a header at a time, then the listing */

/* As an allocator does it: a stretch, stores to it, the next stretch. None is a huge page. */
static uint64_t grow(uint64_t pages)
{
	const uint64_t stretch = 32;
	uint64_t touched = 0;

	for (uint64_t n; touched < pages; touched += n) {
		n = pages - touched < stretch ? pages - touched : stretch;
		char *fresh = sbrk(n * PAGE);
		if (fresh == (void *)-1)
			break;
		for (uint64_t i = 0; i < n; i++)
			*(volatile char *)(fresh + i * PAGE) = 1;
	}
	return touched;
}

/* Looked for in one directory after the other. */
static bool read_header(struct evidence *e, uint64_t n)
{
	char name[PATH_BYTES];
	struct stat s;
	int fd = -1;

	for (int i = 0; i < SEARCHED && fd < 0; i++) {
		fd = open(build_path(name, include_directories[i], n, ".h"), O_RDONLY);
		e->missed += fd < 0 && errno == ENOENT;
	}
	if (fd < 0 || fstat(fd, &s) || s.st_size > LISTING ||
	    read(fd, text, s.st_size) != s.st_size || close(fd))
		return false;
	e->headers++;
	e->bytes += s.st_size;
	e->hash = hash_bytes(e->hash, text, s.st_size);
	return true;
}

static int cc1(int argc, char **argv)
{
	char name[PATH_BYTES];

	if (argc != ARGUMENTS)
		return 2;
	uint64_t unit = atoll(argv[UNIT]), headers = atoll(argv[HEADERS]), burn = atoll(argv[BURN]);
	struct evidence did = { .units = 1, .hash = unit };
	for (uint64_t n = 0; n < headers; n++)
		if (!read_header(&did, n))
			return 1;
	did.pages = grow(atoll(argv[HEAP]) * CC1_PAGES);
	for (uint64_t kib = 0; kib < burn; kib++)
		did.hash = hash_bytes(did.hash, text, 1024);
	fill(text, LISTING, did.hash);
	*(struct evidence *)text = did;
	return !build_write(build_path(name, "out/", unit, ".s"), text, LISTING);
}
ROLE("cc1", cc1);

/* The other programs of the job: cc runs cc1 and as for one unit, ld joins the objects of all. */

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
		if (stat(include_directories[i % SEARCHED], &s))
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
	did->pages += grow(atoll(argv[HEAP]) * AS_PAGES);
	did->hash = hash_bytes(did->hash, text, LISTING);
	fill(object, OBJECT, did->hash);
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

static const char *header(uint64_t n)
{
	static char name[PATH_BYTES];

	return build_path(name, include_directories[SEARCHED - 1], n, ".h");
}

/* The headers that cc1 reads: generated, so that no source tree is needed. */
static void make_headers(uint64_t headers)
{
	static char text[HEADER_KIB << 10];

	if (mkdir("include", 0700) || mkdir("out", 0700))
		fail("mkdir");
	for (int i = 0; i < SEARCHED; i++)
		if (mkdir(include_directories[i], 0700))
			fail("mkdir");
	for (uint64_t n = 0; n < headers; n++) {
		uint64_t seed = n, kib = 1 + splitmix64(&seed) % HEADER_KIB;
		fill(text, kib << 10, seed);
		if (!build_write(header(n), text, kib << 10))
			fail("header");
	}
}

/* Whether the file, of less than HEADER_KIB + 1 KiB, has a page in memory. */
static bool is_cached(int fd, size_t size)
{
	unsigned char page[HEADER_KIB / 4 + 1] = { 0 };
	void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	bool cached = map == MAP_FAILED || mincore(map, size, page);

	for (size_t i = 0; i < sizeof(page); i++)
		cached |= page[i] & 1;
	munmap(map, size);
	return cached;
}

/* A guest is alone on its machine; elsewhere only our own files may go. */
void build_cold(uint64_t headers)
{
	int fd;

	if (in_guest) {
		fd = open("/proc/sys/vm/drop_caches", O_WRONLY);
		if (fd < 0 || write(fd, "3", 1) != 1 || close(fd))
			fail("drop_caches");
		return;
	}
	for (uint64_t n = 0; n < headers; n++) {
		fd = open(header(n), O_RDONLY);
		if (fd < 0 || fsync(fd))
			fail("fsync");
		errno = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		if (errno)
			fail("fadvise");
		errno = EBUSY;
		if (is_cached(fd, lseek(fd, 0, SEEK_END)))
			fail("headers that stay in the page cache: TMPDIR must be on a disk");
		close(fd);
	}
}

/* As make does: keeps a number of units going until all are done, then has them linked. */
struct build build;

static char words[ARGUMENTS][PATH_BYTES];
static char *argv[ARGUMENTS + 1];

static bool start(char *role, uint64_t unit)
{
	argv[ROLE_NAME] = role;
	build_path(words[UNIT], "", unit, "");
	pid_t pid = child();
	if (!pid) {
		syscall(SYS_execve, argv[PROGRAM], argv, (char *[]){ NULL });
		syscall(SYS_exit_group, 127);
	}
	return pid > 0;
}

/* Waits for whichever ends. */
static bool one_ended(void)
{
	int status;

	return syscall(SYS_wait4, -1, &status, 0, NULL) > 0 && !status;
}

/* Waits for all that was started, even after a failure: nobody writes files behind our back. */
static bool made(uint64_t units)
{
	uint64_t started = 0, ended = 0;
	bool good = true;

	while (ended < started || (good && started < units)) {
		if (good && started < units && started - ended < build.jobs) {
			good = start("role:cc", started);
			started += good;
		} else {
			good &= one_ended();
			ended++;
		}
	}
	return good && start("role:ld", units) && one_ended();
}

/* A process of its own, as make is: whatever ends below it is of the job, never of a load. */
__attribute__((noinline, noclone)) bool build_run(uint64_t units)
{
	pid_t pid = worker();

	if (!pid)
		syscall(SYS_exit_group, !made(units));
	return pid > 0 && child_succeeded(pid);
}

static void build_configure(const struct order *o)
{
	build.jobs = param(o, "jobs", 0);
	errno = EINVAL;
	if (build.jobs > JOBS_MAX)
		fail("jobs");
	if (!build.jobs)
		build.jobs = team_cpus() < JOBS_MAX ? team_cpus() : JOBS_MAX;
	build.headers = param(o, "headers", 20);
	for (int i = 0; i < ARGUMENTS; i++)
		argv[i] = words[i];
	argv[PROGRAM] = (char *)role_program;
	build_path(words[HEADERS], "", build.headers, "");
	build_path(words[HEAP], "", param(o, "heap", 1), "");
	build_path(words[BURN], "", param(o, "burn", 100), "");
}

void build_prepare(const struct order *o)
{
	char name[PATH_BYTES];

	build_configure(o);
	if (chdir(scratch_directory()))
		fail("chdir");
	make_headers(build.headers);
	if (!build_run(build.jobs) || unlink("out/linked"))
		fail("warm-up");
	for (uint64_t unit = 0; unit < build.jobs; unit++)
		if (unlink(build_path(name, "out/", unit, ".o")))
			fail("warm-up");
}

/*
 * The proof that the job was done. Each object tells what its unit did; ld makes all of them, one
 * after the other.
 */
void build_say(bool made)
{
	static char object[OBJECT];
	const struct evidence *unit = (void *)object;
	struct evidence all = { 0 };
	int fd = open("out/linked", O_RDONLY);

	for (; read(fd, object, OBJECT) == OBJECT; all.hash = hash_bytes(all.hash, object, OBJECT)) {
		all.units += unit->units;
		all.headers += unit->headers;
		all.missed += unit->missed;
		all.bytes += unit->bytes;
		all.pages += unit->pages;
	}
	sig("units", all.units);
	sig("failed", !made);
	sig("headers", all.headers);
	sig("missed", all.missed);
	sig("read-bytes", all.bytes);
	sig("touched-pages", all.pages);
	sig("linked-bytes", lseek(fd, 0, SEEK_END));
	sig("hash", all.hash >> 1); /* fits an integer of TOML */
	close(fd);
}

/* The job alone: what a kernel costs where many short programs read, compute and write files. */
static void buildlike_run(const struct order *o)
{
	build_prepare(o);
	region_begin();
	bool made = build_run(o->ops);
	region_end();
	build_say(made);
}

WORKLOAD("buildlike", buildlike_run);
