/* SPDX-License-Identifier: MIT */
/*
 * What the extra pages of a process can be. The number of faults that made them resident says
 * whether they are what was asked for: one for each 4 KiB page, or one for each huge page.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backing.h"
#include "ktax.h"

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
 * What processes can share page tables of: all of a 1 GiB range of one shared mapping, of which
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

uint64_t backing_fill(enum backing kind, uint64_t n)
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

void backing_touch(void)
{
	touch(filled.at, filled.n, filled.stride);
}
