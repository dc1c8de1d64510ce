/* SPDX-License-Identifier: MIT */
/* Rows of lmbench that make one system call, or a few of one kind, and signals. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "lmbench.h"
#include "tools.h"

enum { MOST_BYTES = 65536 };

/* A process runs one row, so they share these. */
static int fd;
static const char *path;
static char *data; /* on a page boundary: how many pages it has decides what a write costs */
static uint64_t bytes;

void overhead(const struct order *o, int (*op)(void))
{
	int failed = 0;

	if (counted)
		return;
	uint64_t start = nanoseconds();
	for (uint64_t i = 0; i < o->ops; i++)
		failed |= op();
	uint64_t took = nanoseconds() - start;
	if (failed)
		fail("overhead");
	value("overhead-ns", took / o->ops);
}

/*
 * The cheapest system calls that still enter the kernel: entry, table, return. It is the bare
 * instruction, because what the kernel does against speculation makes the CPU forget who called
 * whom: each return after it is mispredicted, and syscall() would add one, natively 5 to 7 % of
 * this row.
 */
static inline int call(long number)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(number) : "rcx", "r11", "memory");
	return result < 0;
}

static int getppid_op(void)
{
	return call(SYS_getppid);
}

static int getuid_op(void)
{
	return call(SYS_getuid);
}

static void getppid_run(const struct order *o)
{
	measure(o, 1000, getppid_op, "calls");
}

static void getuid_run(const struct order *o)
{
	measure(o, 1000, getuid_op, "calls");
}

WORKLOAD("getppid", getppid_run);
WORKLOAD("getuid", getuid_run);

/* One byte from /dev/zero: the read path without a file system below it. */
static int read_op(void)
{
	char byte;

	return syscall(SYS_read, fd, &byte, 1) != 1;
}

static void read_run(const struct order *o)
{
	fd = open("/dev/zero", O_RDONLY);
	if (fd < 0)
		fail("open /dev/zero");
	measure(o, 1000, read_op, "calls");
}

WORKLOAD("read-1", read_run);

/* One byte to /dev/null: the write path without a file system below it. */
static int write_op(void)
{
	return syscall(SYS_write, fd, "", 1) != 1;
}

static void write_run(const struct order *o)
{
	fd = open("/dev/null", O_WRONLY);
	if (fd < 0)
		fail("open /dev/null");
	measure(o, 1000, write_op, "calls");
}

WORKLOAD("write-1", write_run);

/* A path walk to a file of known size and its attributes. */
static int stat_op(void)
{
	struct stat st;

	/* The call that stat() of the C library makes. */
	return syscall(SYS_newfstatat, AT_FDCWD, path, &st, 0) || st.st_size != 1;
}

static void stat_run(const struct order *o)
{
	path = scratch();
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
	if (fd < 0 || write(fd, "x", 1) != 1 || close(fd))
		fail("create");
	measure(o, 100, stat_op, "calls");
}

WORKLOAD("stat", stat_run);

/* The attributes of an open file: stat without the path walk. */
static int fstat_op(void)
{
	struct stat st;

	return syscall(SYS_fstat, fd, &st) || st.st_size != 1;
}

static void fstat_run(const struct order *o)
{
	fd = open(scratch(), O_CREAT | O_EXCL | O_WRONLY, 0600);
	if (fd < 0 || write(fd, "x", 1) != 1)
		fail("create");
	measure(o, 100, fstat_op, "calls");
}

WORKLOAD("fstat", fstat_run);

/* Open an existing file for reading and close it. */
static int open_close_op(void)
{
	long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);

	return fd < 0 || syscall(SYS_close, fd);
}

static void open_close_run(const struct order *o)
{
	path = scratch();
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
	if (fd < 0 || close(fd))
		fail("create");
	measure(o, 100, open_close_op, "calls");
}

WORKLOAD("open-close", open_close_run);

/* Ask with select() whether `fds` descriptors of one file can be written; all of them can. */
static fd_set all;
static int highest;
static uint64_t fds;

static int select_op(void)
{
	fd_set writable = all;
	struct timeval now = { 0 };

	return syscall(SYS_select, highest + 1, NULL, &writable, NULL, &now) != (long)fds;
}

static void select_run(const struct order *o, int fd)
{
	fds = param(o, "fds", 100);
	highest = fd;
	FD_SET(fd, &all);
	for (uint64_t i = 1; i < fds; i++) {
		highest = fcntl(fd, F_DUPFD, highest + 1);
		if (highest < 0)
			fail("dup");
		errno = EMFILE;
		if (highest >= FD_SETSIZE)
			fail("fds");
		FD_SET(highest, &all);
	}
	measure(o, 20, select_op, "calls");
	sig("fds", fds);
}

static void select_tcp_run(const struct order *o)
{
	int ends[2];

	loopback_tcp(ends); /* the other end stays open and idle */
	select_run(o, ends[0]);
}

static void select_file_run(const struct order *o)
{
	int fd = open(scratch(), O_CREAT | O_EXCL | O_RDWR, 0600);

	if (fd < 0)
		fail("create");
	select_run(o, fd);
}

WORKLOAD("select-tcp", select_tcp_run);
WORKLOAD("select-file", select_file_run);

/* Install a handler for a signal. */
static void ignore(int number)
{
	(void)number;
}

static int signal_install_op(void)
{
	static const struct sigaction action = { .sa_handler = ignore };

	/* Not a bare call: the kernel wants the C library's way back from a handler with it. */
	return sigaction(SIGUSR1, &action, NULL);
}

static void signal_install_run(const struct order *o)
{
	struct sigaction now;

	measure(o, 1000, signal_install_op, "calls");
	sig("installed", !sigaction(SIGUSR1, NULL, &now) && now.sa_handler == ignore);
}

WORKLOAD("signal-install", signal_install_run);

/* Send oneself a signal; the handler runs before kill() returns. */
static volatile uint64_t handled;
static pid_t self;

static void count_signal(int number)
{
	(void)number;
	handled++;
}

static int signal_handle_op(void)
{
	uint64_t before = handled;

	return syscall(SYS_kill, self, SIGUSR1) || handled != before + 1;
}

static int kill_nothing(void)
{
	return syscall(SYS_kill, self, 0) != 0;
}

static void signal_handle_run(const struct order *o)
{
	const struct sigaction action = { .sa_handler = count_signal };

	self = getpid();
	if (sigaction(SIGUSR1, &action, NULL))
		fail("sigaction");
	measure(o, 100, signal_handle_op, "signals");
	overhead(o, kill_nothing);
}

WORKLOAD("signal-handle", signal_handle_run);

/* Store to a read-only page, take SIGSEGV in a handler, go on behind the store. */
static volatile uint64_t caught;
static char *page;

/*
 * A handler that only returns faults again for ever, and the number of faults is then not in
 * our hands. This one goes on at the address that the store left in RDX: one store, one fault.
 */
static void skip_store(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

	if ((char *)info->si_addr != page)
		signal(number, SIG_DFL); /* a bug of ours: die of the next one */
	registers[REG_RIP] = registers[REG_RDX];
	caught++;
}

static int protection_fault_op(void)
{
	uint64_t before = caught;

	__asm__ volatile("lea 1f(%%rip), %%rdx; movb $1, (%0); 1:" ::"r"(page) : "rdx", "memory");
	return caught != before + 1;
}

static void protection_fault_run(const struct order *o)
{
	struct sigaction action = { .sa_sigaction = skip_store, .sa_flags = SA_SIGINFO };

	page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		fail("mmap");
	if (sigaction(SIGSEGV, &action, NULL))
		fail("sigaction");
	measure(o, 100, protection_fault_op, "signals");
}

WORKLOAD("protection-fault", protection_fault_run);

/* Makes the content of files, `bytes` bytes. */
static void fill_data(const struct order *o)
{
	bytes = param(o, "bytes", 0);
	errno = EFBIG;
	if (bytes > MOST_BYTES)
		fail("bytes");
	data = pages(MOST_BYTES / PAGE);
	memset(data, 'x', MOST_BYTES);
}

/* Create a file, write `bytes` to it at once, close it, delete it. */
static uint64_t written;

static int create_delete_op(void)
{
	long fd = syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_EXCL | O_WRONLY, 0600);
	long n = fd >= 0 && bytes ? syscall(SYS_write, fd, data, bytes) : 0;

	if (n > 0)
		written += n;
	return fd < 0 || syscall(SYS_close, fd) ||
	       syscall(SYS_unlinkat, AT_FDCWD, path, 0) || (uint64_t)n != bytes;
}

static void create_delete_run(const struct order *o)
{
	const uint64_t warm_up = 100;

	fill_data(o);
	path = scratch();
	measure(o, warm_up, create_delete_op, "files");
	sig("bytes", written - warm_up * bytes);
}

WORKLOAD("create-delete", create_delete_run);

/*
 * Create files of `bytes` bytes, or delete them. A hundred share a directory; directories and
 * names are made before.
 */
enum { WARM_UP = 400, PER_DIRECTORY = 100, NUMBERS = sizeof("/00000000/00") };

static char *names, *next;
static size_t name_size;

static int create_next(void)
{
	const int flags = O_CREAT | O_WRONLY | O_TRUNC; /* creat() */
	long fd = syscall(SYS_openat, AT_FDCWD, next, flags, 0666);
	long n = fd >= 0 && bytes ? syscall(SYS_write, fd, data, bytes) : 0;

	next += name_size;
	return fd < 0 || syscall(SYS_close, fd) || (uint64_t)n != bytes;
}

static int delete_next(void)
{
	long error = syscall(SYS_unlinkat, AT_FDCWD, next, 0);

	next += name_size;
	return error != 0;
}

static void make_names(const struct order *o)
{
	const uint64_t files = WARM_UP + o->ops;
	const char *directory = scratch_directory();

	fill_data(o);
	name_size = strlen(directory) + NUMBERS;
	next = names = pages(files * name_size / PAGE + 1);
	for (uint64_t i = 0; i < files; i++) {
		char *name = names + i * name_size;
		int end = sprintf(name, "%s/%08lu", directory, i / PER_DIRECTORY);
		if (i % PER_DIRECTORY == 0 && mkdir(name, 0700))
			fail("mkdir");
		sprintf(name + end, "/%02lu", i % PER_DIRECTORY);
	}
}

/* Reports which files of the Region exist. */
static void report_files(const struct order *o, const char *files, const char *size)
{
	uint64_t found = 0, held = 0;
	struct stat st;

	for (uint64_t i = WARM_UP; i < WARM_UP + o->ops; i++)
		if (!stat(names + i * name_size, &st)) {
			found++;
			held += st.st_size;
		}
	sig(files, found);
	sig(size, held);
}

static void file_create_run(const struct order *o)
{
	make_names(o);
	measure(o, WARM_UP, create_next, "created");
	report_files(o, "files", "bytes");
}

static void file_delete_run(const struct order *o)
{
	make_names(o);
	for (uint64_t i = 0; i < WARM_UP + o->ops; i++)
		if (create_next())
			fail("create");
	report_files(o, "files", "bytes");
	next = names;
	measure(o, WARM_UP, delete_next, "deleted");
	report_files(o, "files-left", "bytes-left");
}

WORKLOAD("file-create", file_create_run);
WORKLOAD("file-delete", file_delete_run);
