/* SPDX-License-Identifier: MIT */
/* Small loops around one call, one program for each kind of thing that they touch. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ktax.h"

/* The parameter `call` is an index: a program's table is in the order of `choices` in its TOML. */
struct micro {
	const char *name;
	int (*op)(void);      /* one operation; this and the next return 0 for a success */
	int (*prepare)(void); /* or NULL */
	void (*finish)(void); /* or NULL */
};

/* A process runs one of the programs, so they share these. */
static int fd, flags;

#define MICRO(O, WARM_UP, CALLS) \
	micro(O, WARM_UP, CALLS, sizeof(CALLS) / sizeof((CALLS)[0]))

static void micro(const struct order *o, uint64_t warm_up, const struct micro *calls, size_t n)
{
	const uint64_t index = param(o, "call", 0);

	errno = EINVAL;
	if (index >= n)
		fail("call");
	const struct micro *call = &calls[index];
	if (call->prepare && call->prepare())
		fail(call->name);
	measure(o, warm_up, call->op, "calls");
	if (call->finish)
		call->finish();
}

/* A file of zeros, on tmpfs wherever this runs; -1 on failure. */
static int memory_file(uint64_t bytes)
{
	char path[32];
	int fd = memfd_create("ktax", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, bytes))
		return -1;
	/* Only what was opened has a position as files have it, that may have to be locked. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* No huge ones, whatever the machine is set to. */
static int small_pages(void)
{
	return prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

/* Descriptors asked whether they are ready, and one that only counts. */
enum { FDS = 128 };

static struct pollfd polled[FDS];
static long fds;

static int poll_all(void)
{
	return syscall(SYS_poll, polled, fds, 0) != fds;
}

static int poll_copies(long n)
{
	fd = memory_file(0);
	for (fds = 0; fds < n; fds++) {
		polled[fds] = (struct pollfd){ .fd = dup(fd), .events = POLLOUT };
		if (polled[fds].fd < 0)
			return 1;
	}
	return 0;
}

static int one_copy(void)
{
	return poll_copies(1);
}

static int many_copies(void)
{
	return poll_copies(FDS);
}

static int counter(void)
{
	fd = eventfd(0, 0);
	return fd < 0;
}

static int count_up_and_down(void)
{
	uint64_t one = 1;

	return syscall(SYS_write, fd, &one, sizeof(one)) != sizeof(one) ||
	       syscall(SYS_read, fd, &one, sizeof(one)) != sizeof(one) || one != 1;
}

static void micro_events_run(const struct order *o)
{
	static const struct micro calls[] = {
		{ "poll1", poll_all, one_copy, NULL },
		{ "poll2", poll_all, many_copies, NULL },
		{ "eventfd", count_up_and_down, counter, NULL },
	};

	MICRO(o, 100, calls);
}

WORKLOAD("micro-events", micro_events_run);

/* A file in memory by its descriptor: doubled, rewound, locked, given room. */
enum { STEP = 8192, STEPS = 128 };

static uint64_t step;

static int new_file(void)
{
	fd = memory_file(0);
	return fd < 0;
}

static int dup_close(void)
{
	long copy = syscall(SYS_dup, fd);

	return copy < 0 || syscall(SYS_close, copy);
}

static int seek(void)
{
	return syscall(SYS_lseek, fd, 0, SEEK_SET) != 0;
}

/* Two descriptors of it: from then on the kernel locks its position. */
static int file_of_two(void)
{
	return new_file() || dup(fd) < 0;
}

static int lock_unlock_file(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_len = 1 };
	struct flock unlock = { .l_type = F_UNLCK, .l_len = 1 };

	return syscall(SYS_fcntl, fd, F_SETLKW, &lock) || syscall(SYS_fcntl, fd, F_SETLKW, &unlock);
}

/* 8 KiB more; nothing again at 1 MiB. */
static int allocate_in_file(void)
{
	if (syscall(SYS_fallocate, fd, 0, STEP * (step % STEPS), STEP))
		return 1;
	return ++step % STEPS == 0 && syscall(SYS_ftruncate, fd, 0);
}

static void micro_files_run(const struct order *o)
{
	static const struct micro calls[] = {
		{ "dup", dup_close, new_file, NULL },
		{ "lseek1", seek, new_file, NULL },
		{ "lseek2", seek, file_of_two, NULL },
		{ "lock1", lock_unlock_file, new_file, NULL },
		{ "fallocate1", allocate_in_file, new_file, NULL },
	};

	MICRO(o, STEPS, calls);
}

WORKLOAD("micro-files", micro_files_run);

/* Waiting and waking where nobody waits, by the call and by the locks that are made of it. */
static uint32_t word;
static int own; /* FUTEX_PRIVATE_FLAG: the kernel need not ask which page it is */
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int own_word(void)
{
	own = FUTEX_PRIVATE_FLAG;
	return 0;
}

static int wake_nobody(void)
{
	return syscall(SYS_futex, &word, FUTEX_WAKE | own, 1, NULL, NULL, 0) != 0;
}

static int wait_for_another_value(void)
{
	return syscall(SYS_futex, &word, FUTEX_WAIT | own, word + 1, NULL, NULL, 0) != -1 ||
	       errno != EAGAIN;
}

static int free_semaphore(void)
{
	return sem_init(&semaphore, 0, 1);
}

static int down_up(void)
{
	return sem_wait(&semaphore) || sem_post(&semaphore);
}

static int lock_unlock_mutex(void)
{
	return pthread_mutex_lock(&mutex) || pthread_mutex_unlock(&mutex);
}

static void micro_futex_run(const struct order *o)
{
	static const struct micro calls[] = {
		{ "futex1", wake_nobody, NULL, NULL },
		{ "futex2", wait_for_another_value, NULL, NULL },
		{ "futex3", wake_nobody, own_word, NULL },
		{ "futex4", wait_for_another_value, own_word, NULL },
		{ "posix-semaphore1", down_up, free_semaphore, NULL },
		{ "pthread-mutex1", lock_unlock_mutex, NULL, NULL },
	};

	MICRO(o, 1000, calls);
}

WORKLOAD("micro-futex", micro_futex_run);

/* 4096 bytes read from or written to a file of 1 MiB in memory, or sent through to oneself. */
enum { BYTES = 4096, FILE_BYTES = 1 << 20, WARM_UP = FILE_BYTES / BYTES };

static int in, out;
static uint64_t done;
static char *buffer;

static int all(long n)
{
	done += n > 0 ? n : 0;
	return n != BYTES;
}

/* Calls that go on from where the last one ended begin again at the end of the file. */
static int begin_again(void)
{
	return done % FILE_BYTES == 0 && syscall(SYS_lseek, in, 0, SEEK_SET);
}

static int read_next(void)
{
	return begin_again() || all(syscall(SYS_read, in, buffer, BYTES));
}

static int write_next(void)
{
	return begin_again() || all(syscall(SYS_write, in, buffer, BYTES));
}

static int read_first(void)
{
	return all(syscall(SYS_pread64, in, buffer, BYTES, 0));
}

static int write_first(void)
{
	return all(syscall(SYS_pwrite64, in, buffer, BYTES, 0));
}

static int send_through(void)
{
	return syscall(SYS_write, out, buffer, BYTES) != BYTES ||
	       all(syscall(SYS_read, in, buffer, BYTES));
}

static int full_file(void)
{
	in = memory_file(0);
	for (int i = 0; i < WARM_UP; i++)
		if (in < 0 || write(in, buffer, BYTES) != BYTES)
			return 1;
	return 0;
}

static int a_pipe(void)
{
	int ends[2];

	if (pipe(ends))
		return 1;
	in = ends[0];
	out = ends[1];
	return 0;
}

static int sockets(void)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	in = ends[0];
	out = ends[1];
	return 0;
}

static void micro_io_run(const struct order *o)
{
	static const struct micro calls[] = {
		{ "read1", read_next, full_file, NULL },
		{ "write1", write_next, full_file, NULL },
		{ "pread1", read_first, full_file, NULL },
		{ "pwrite1", write_first, full_file, NULL },
		{ "pipe1", send_through, a_pipe, NULL },
		{ "unix1", send_through, sockets, NULL },
	};

	buffer = pages(1);
	MICRO(o, WARM_UP, calls);
	sig("bytes", done - WARM_UP * BYTES);
}

WORKLOAD("micro-io", micro_io_run);

/* Address space taken and given back at once, none of it used. */
static const size_t large = 128 << 20;
static int map_fd = -1, map_flags = MAP_PRIVATE | MAP_ANONYMOUS;
static size_t size;
static uintptr_t top;

static int map(void)
{
	long at = syscall(SYS_mmap, NULL, large, PROT_READ | PROT_WRITE, map_flags, map_fd, 0);

	return at == -1 || syscall(SYS_munmap, at, large);
}

static int of_file(void)
{
	map_flags = MAP_PRIVATE;
	map_fd = memory_file(large);
	return map_fd < 0;
}

/* A page more and a page less. */
static int break_up_and_down(void)
{
	return (uintptr_t)syscall(SYS_brk, top + PAGE) != top + PAGE ||
	       (uintptr_t)syscall(SYS_brk, top) != top;
}

/* The heap grows and shrinks. */
static int above_heap(void)
{
	top = (syscall(SYS_brk, 0) + 2ul * PAGE - 1) & -PAGE;
	return (uintptr_t)syscall(SYS_brk, top) != top;
}

/* A heap begins and ends: it cannot be joined to a last page of another protection. */
static int above_nothing(void)
{
	return above_heap() || mprotect((void *)(top - PAGE), PAGE, PROT_READ);
}

static int allocate_and_free(void)
{
	void *volatile at = malloc(size); /* else the compiler does without both calls */

	free(at);
	return !at;
}

/* Beyond every threshold: a mapping of its own. The allocator's header is one fault. */
static int malloc_large(void)
{
	size = large;
	return small_pages();
}

static int malloc_small(void)
{
	size = 1000;
	return 0;
}

static void micro_mappings_run(const struct order *o)
{
	static const struct micro calls[] = {
		{ "mmap1", map, NULL, NULL },
		{ "mmap2", map, of_file, NULL },
		{ "brk1", break_up_and_down, above_nothing, NULL },
		{ "brk2", break_up_and_down, above_heap, NULL },
		{ "malloc1", allocate_and_free, malloc_large, NULL },
		{ "malloc2", allocate_and_free, malloc_small, NULL },
	};

	MICRO(o, 100, calls);
}

WORKLOAD("micro-mappings", micro_mappings_run);

/* Names of files: opened, removed, listed. */
enum { NAMES = 32 };

static const char *path;
static long directory, bytes;

static int open_close(void)
{
	long file = syscall(SYS_openat, AT_FDCWD, path, flags, 0600);

	return file < 0 || syscall(SYS_close, file);
}

static int open_close_unlink(void)
{
	return open_close() || syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

static int new_name(void)
{
	path = scratch();
	flags = O_RDWR | O_CREAT;
	return 0;
}

static int old_name(void)
{
	if (new_name() || open_close())
		return 1;
	flags = O_RDWR;
	return 0;
}

/* From the beginning; all names fit. */
static long list(void)
{
	char entries[4096];

	if (syscall(SYS_lseek, directory, 0, SEEK_SET))
		return -1;
	return syscall(SYS_getdents64, directory, entries, sizeof(entries));
}

static int list_again(void)
{
	return list() != bytes;
}

static int full_directory(void)
{
	char name[] = "00";

	directory = open(scratch_directory(), O_RDONLY | O_DIRECTORY);
	for (int i = 0; i < NAMES; i++) {
		name[0] = '0' + i / 10;
		name[1] = '0' + i % 10;
		int file = openat(directory, name, O_CREAT | O_EXCL, 0600);
		if (file < 0 || close(file))
			return 1;
	}
	bytes = list();
	/* A name of two takes 24 bytes, whatever the file system, and so do "." and "..". */
	return bytes != 24 * (NAMES + 2);
}

static void micro_names_run(const struct order *o)
{
	static const struct micro calls[] = {
		{ "open1", open_close, old_name, NULL },
		{ "unlink1", open_close_unlink, new_name, NULL },
		{ "getdents", list_again, full_directory, NULL },
	};

	MICRO(o, 100, calls);
}

WORKLOAD("micro-names", micro_names_run);

/*
 * One page of a mapping after the other: a first store to it (micro-faults), or a store, its end
 * and a load (micro-flush). After the last page a new mapping takes the place of the old one, so
 * that any number of operations goes.
 */
static char *first, *next;
static uint64_t size;

static int fault(void)
{
	if (next == first + size) {
		if (syscall(SYS_munmap, first, size) ||
		    syscall(SYS_mmap, first, size, PROT_READ | PROT_WRITE, flags, fd, 0) != (long)first)
			return 1;
		next = first;
	}
	*(volatile char *)next = 1;
	next += PAGE;
	return 0;
}

static int flush(void)
{
	if (fault() || syscall(SYS_madvise, next - PAGE, PAGE, MADV_DONTNEED))
		return 1;
	/* Only of a shared page does the file know. */
	return *(volatile char *)(next - PAGE) != !!(flags & MAP_SHARED);
}

static int mapping(int kind, int file)
{
	fd = file;
	flags = kind | MAP_FIXED;
	first = pages(size / PAGE);
	next = first + size; /* these pages were only to find a place */
	return small_pages();
}

static int anonymous_mapping(void)
{
	return mapping(MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static int private_file_mapping(void)
{
	return mapping(MAP_PRIVATE, memory_file(size));
}

static int shared_file_mapping(void)
{
	return mapping(MAP_SHARED, memory_file(size));
}

static const struct micro faults_calls[] = {
	{ "page-fault1", fault, anonymous_mapping, NULL },
	{ "page-fault2", fault, private_file_mapping, NULL },
	{ "page-fault3", fault, shared_file_mapping, NULL },
};

static const struct micro flush_calls[] = {
	{ "tlb-flush1", flush, private_file_mapping, NULL },
	{ "tlb-flush2", flush, anonymous_mapping, NULL },
	{ "tlb-flush3", flush, shared_file_mapping, NULL },
};

/* Three mappings: the first fills the file, by the third its pages count as in use. */
static uint64_t warm_up(const struct order *o)
{
	size = param(o, "mib", 4) << 20;
	return 3 * size / PAGE;
}

static void micro_faults_run(const struct order *o)
{
	MICRO(o, warm_up(o), faults_calls);
	sig("faults", region_faults);
}

static void micro_flush_run(const struct order *o)
{
	MICRO(o, warm_up(o), flush_calls);
}

WORKLOAD("micro-faults", micro_faults_run);
WORKLOAD("micro-flush", micro_flush_run);

/* A process among others: switched, signalled, made, asked for its group, told the time. */
static int to[2], from[2];
static pid_t self, helper;
static volatile uint64_t handled;

static int helped(void)
{
	if (pipe(to) || pipe(from))
		return 1;
	helper = child_echo(to[0], from[1], to[1]);
	return 0;
}

static int there_and_back(void)
{
	char byte;

	return syscall(SYS_write, to[1], "", 1) != 1 || syscall(SYS_read, from[0], &byte, 1) != 1;
}

static void end_helper(void)
{
	close(to[1]);
	sig("children", child_succeeded(helper));
}

static int yield(void)
{
	return syscall(SYS_sched_yield) != 0;
}

static void handler(int number)
{
	(void)number;
	handled++;
}

static int handling(void)
{
	const struct sigaction action = { .sa_handler = handler };

	self = getpid();
	return sigaction(SIGUSR1, &action, NULL);
}

static int signal_self(void)
{
	uint64_t before = handled;

	return syscall(SYS_tgkill, self, self, SIGUSR1) || handled != before + 1;
}

static int getpgid_self(void)
{
	return syscall(SYS_getpgid, 0) < 0;
}

/* By the C library, so without a call where the kernel lets programs read the clock themselves. */
static int now(void)
{
	struct timespec time;

	return clock_gettime(CLOCK_MONOTONIC, &time);
}

static void micro_tasks_run(const struct order *o)
{
	static const struct micro calls[] = {
		{ "context-switch1", there_and_back, helped, end_helper },
		{ "sched-yield", yield, NULL, NULL },
		{ "signal1", signal_self, handling, NULL },
		{ "getpgid", getpgid_self, NULL, NULL },
		{ "fork1", child_round, NULL, NULL },
		{ "clock-gettime", now, NULL, NULL },
	};

	MICRO(o, 100, calls);
}

WORKLOAD("micro-tasks", micro_tasks_run);
