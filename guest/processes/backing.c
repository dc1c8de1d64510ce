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

static char *in_hugetlb(size_t size)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
	char *at = NULL, number[24];

	snprintf(number, sizeof(number), "%zu", size / HUGE);
	allow("/proc/sys/vm/nr_hugepages", number);
	if (size)
		at = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (at == MAP_FAILED)
		fail("huge pages, which root reserves by sysctl vm.nr_hugepages, one for 512 pages");
	return at;
}

/* Nothing here is touched first between two calls. */
static __attribute__((noinline, noclone)) uint64_t touch(char *at, uint64_t n)
{
	uint64_t before = faults();

	for (uint64_t i = 0; i < n; i++)
		((volatile char *)at)[i * PAGE] = 1;
	return faults() - before;
}

uint64_t backing_fill(enum backing kind, uint64_t n)
{
	uint64_t whole = (n * PAGE + HUGE - 1) & ~(HUGE - 1ul);
	char *at = kind == HUGETLB ? NULL : pages(kind == THP ? whole / PAGE : n);

	errno = 0;
	if (kind == THP)
		in_huge_pages(at, whole);
	if (kind == SHARED_FILE)
		in_file(at, n * PAGE);
	if (kind == HUGETLB)
		at = in_hugetlb(whole);
	touch(at, 0);
	n = touch(at, n);
	errno = 0;
	if (kind == THP && n > whole / HUGE)
		fail("no huge pages, see /sys/kernel/mm/transparent_hugepage/enabled");
	return n;
}
