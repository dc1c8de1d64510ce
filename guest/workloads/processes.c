/* SPDX-License-Identifier: MIT */
/* fork beside many pages of the parent, one child after the other or many at once. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

/*
 * The kinds of the extra pages of a process. The number of faults that made them resident says
 * whether they are what was asked for: one for each 4 KiB page, or one for each huge page.
 */
enum backing { ANONYMOUS, THP, SHARED_FILE, HUGETLB, SHARED_HUGETLB };
enum { HUGE = 2 << 20 };

/* A guest is nobody else's; natively, the machine's owner decides. */
static void allow(const char *file, const char *text)
{
	if (!in_guest)
		return;
	int fd = open(file, O_WRONLY);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail(file);
	close(fd);
}

/* The kernel has them off by itself where there is less than half a GiB of memory. */
static void in_huge_pages(char *at, size_t size)
{
	allow("/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
	if (size && madvise(at, size, MADV_HUGEPAGE))
		fail("madvise: the kernel needs CONFIG_TRANSPARENT_HUGEPAGE");
}

/* Of memory, not of the disk: its writeback would be measured too. */
static void in_file(char *at, size_t size)
{
	int fd = memfd_create("pages", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, size))
		fail("memfd_create");
	if (size && mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != at)
		fail("mmap");
	close(fd);
}

static const char RESERVED[] =
	"huge pages, which root reserves by sysctl vm.nr_hugepages, one for 512 pages";

static void reserve(size_t size)
{
	char number[24];

	snprintf(number, sizeof(number), "%zu", size / HUGE);
	allow("/proc/sys/vm/nr_hugepages", number);
}

static char *in_hugetlb(size_t size)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
	char *at = NULL;

	reserve(size);
	if (size)
		at = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (at == MAP_FAILED)
		fail(RESERVED);
	return at;
}

/*
 * Processes can share page tables of all of a 1 GiB range of one shared mapping, of which
 * only the beginning has pages.
 */
static char *in_shared_hugetlb(size_t size)
{
	const size_t table = 1ul << 30;
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED;
	int fd = memfd_create("pages", MFD_CLOEXEC | MFD_HUGETLB);
	uintptr_t at = (uintptr_t)mmap(NULL, 2 * table, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	reserve(size);
	at = (at + table - 1) & -table;
	if (fd < 0 || (size && fallocate(fd, 0, 0, size)))
		fail(RESERVED);
	if (mmap((void *)at, table, prot, flags, fd, 0) == MAP_FAILED)
		fail("mmap");
	close(fd);
	return (char *)at;
}

/* Nothing here is touched first between two calls. */
static __attribute__((noinline, noclone)) uint64_t touch(char *at, uint64_t n, size_t stride)
{
	uint64_t before = faults();

	for (uint64_t i = 0; i < n; i++)
		((volatile char *)at)[i * stride] = 1;
	return faults() - before;
}

static struct {
	char *at;
	uint64_t n;
	size_t stride;
} filled;

/* Makes n 4 KiB pages of a kind resident, and returns how many faults that took. */
static uint64_t backing_fill(enum backing kind, uint64_t n)
{
	uint64_t whole = (n * PAGE + HUGE - 1) & ~(HUGE - 1ul), faulted;
	int huge = kind == HUGETLB || kind == SHARED_HUGETLB;
	char *at = huge ? NULL : pages(kind == THP ? whole / PAGE : n);

	errno = 0;
	if (kind == THP)
		in_huge_pages(at, whole);
	if (kind == SHARED_FILE)
		in_file(at, n * PAGE);
	if (kind == HUGETLB)
		at = in_hugetlb(whole);
	if (kind == SHARED_HUGETLB)
		at = in_shared_hugetlb(whole);
	touch(at, 0, PAGE);
	faulted = touch(at, n, PAGE);
	errno = 0;
	if (kind == THP && faulted > whole / HUGE)
		fail("no huge pages, see /sys/kernel/mm/transparent_hugepage/enabled");
	filled.at = at;
	filled.stride = huge || kind == THP ? HUGE : PAGE;
	filled.n = filled.stride == HUGE ? whole / HUGE : n;
	return faulted;
}

/* Writes to each of them once more, in whatever process. */
static void backing_touch(void)
{
	touch(filled.at, filled.n, filled.stride);
}

/*
 * Children that are all alive at once. Making them and ending them are two steps, so that a Region
 * can have one or both; both return how many did not succeed. Shared, so that no fork copies it.
 */
static struct {
	uint32_t go;
	pid_t pid[];
} *crowd;

/*
 * Where instructions are counted no child may run before the parent waits, or the timer tick would
 * decide how many of them are in the Region. Elsewhere they have CPUs of their own.
 */
static void go_first(void)
{
	struct sched_param priority = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority))
		fail("sched_setscheduler");
}

static void crowd_prepare(uint64_t most)
{
	const int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE;
	const uint64_t pids = 4 << 20; /* that any kernel has */
	size_t size = sizeof(*crowd) + most * sizeof(pid_t);

	errno = EAGAIN;
	if (most > pids)
		fail("children");
	crowd = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (crowd == MAP_FAILED)
		fail("mmap");
	if (counted)
		go_first();
}

/* n children, which do nothing but wait. */
static uint64_t crowd_begin(uint64_t n)
{
	uint64_t failed = 0;

	for (uint64_t i = 0; i < n; i++) {
		pid_t pid = child();
		if (!pid) {
			while (!__atomic_load_n(&crowd->go, __ATOMIC_ACQUIRE))
				syscall(SYS_futex, &crowd->go, FUTEX_WAIT, 0, NULL);
			syscall(SYS_exit_group, 0);
		}
		failed += pid < 0;
		crowd->pid[i] = pid;
	}
	return failed;
}

/* Lets them go, and reaps all n. */
static uint64_t crowd_end(uint64_t n)
{
	uint64_t failed = 0;

	__atomic_store_n(&crowd->go, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &crowd->go, FUTEX_WAKE, INT_MAX);
	for (uint64_t i = 0; i < n; i++)
		failed += crowd->pid[i] > 0 && !child_succeeded(crowd->pid[i]);
	crowd->go = 0;
	return failed;
}

/*
 * fork beside `pages` pages of the parent, which fork copies and exit drops one by one. One child
 * after the other by default. With mode=fork the Region has only the forks, of children that stay
 * until it is over; with mode=live it has their ends too, after the last fork. With mode=touch each
 * child writes to all pages before it ends.
 */
enum mode { FORK_EXIT_WAIT, FORK, LIVE, TOUCH };

static int touching_round(void)
{
	pid_t pid = child();

	if (!pid) {
		backing_touch();
		_exit(0);
	}
	return pid < 0 || !child_succeeded(pid);
}

static void all_at_once(const struct order *o, enum mode mode)
{
	const uint64_t warm_up = 2;
	uint64_t failed;

	crowd_prepare(warm_up + o->ops);
	failed = crowd_begin(warm_up);
	if (failed + crowd_end(warm_up))
		fail("warm-up");
	region_begin();
	failed = crowd_begin(o->ops);
	if (mode == LIVE)
		failed += crowd_end(o->ops);
	region_end();
	if (mode == FORK)
		failed += crowd_end(o->ops);
	sig("children", o->ops - failed);
	sig("failed", failed);
}

static void fork_pages_run(const struct order *o)
{
	enum mode mode = param(o, "mode", FORK_EXIT_WAIT);
	enum backing kind = param(o, "backing", ANONYMOUS);
	uint64_t n = param(o, "pages", 16), faults = backing_fill(kind, n);
	int huge = kind == THP || kind == HUGETLB || kind == SHARED_HUGETLB;
	uint64_t wanted = huge ? (n + 511) / 512 : n;

	if (mode == FORK_EXIT_WAIT || mode == TOUCH)
		measure(o, 2, mode == TOUCH ? touching_round : child_round, "children");
	else
		all_at_once(o, mode);
	value("touch-faults", faults);
	sig("faults-amiss", faults > wanted ? faults - wanted : wanted - faults);
}

WORKLOAD("fork-pages", fork_pages_run);
