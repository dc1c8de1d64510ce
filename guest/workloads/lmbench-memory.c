/* SPDX-License-Identifier: MIT */
/* Rows of lmbench that touch memory: bandwidths in KiB, page faults, mappings of a file. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lmbench.h"

/* The loops over ints are unrolled to 512 bytes and stay what they say: see sum_kib(). */
#define UNROLLED _Pragma("GCC unroll 128")

/* A process runs one row, so they share these. */
static int fd;
static uint32_t *buffer;
static char *next;

/* One loop for warm-up and Region, as repeat() in region.c. */
static __attribute__((noinline, noclone)) uint64_t
move_all(uint64_t kib, uint64_t piece, uint64_t (*move)(uint64_t kib))
{
	uint64_t proved = 0;

	for (; kib > piece; kib -= piece)
		proved += move(piece);
	return proved + move(kib);
}

void bandwidth(const struct order *o, uint64_t warm_up, uint64_t piece,
	       uint64_t (*move)(uint64_t kib), const char *proof)
{
	uint64_t proved;

	if (!move_all(warm_up, piece, move))
		fail("warm-up");
	region_begin();
	proved = move_all(o->ops, piece, move);
	region_end();
	sig(proof, proved);
}

/* The ints of each KiB are 1 to 256, beginning with another one in each. */
static void fill_kib(uint32_t *at, uint64_t kib)
{
	for (uint64_t k = 0; k < kib; k++)
		for (uint64_t i = 0; i < KIB_INTS; i++)
			*at++ = 1 + (k + i) % KIB_INTS;
}

/* Loads and adds every int; never inlined, so that all rows run one loop. */
static __attribute__((noinline, noclone)) uint64_t sum_kib(const uint32_t *at, uint64_t kib)
{
	uint64_t all = 0;

	for (; kib; kib--) {
		uint32_t sum = 0;
		UNROLLED for (int i = 0; i < KIB_INTS; i++) {
			sum += *at++;
			__asm__("" : "+r"(sum)); /* one by one: no vectors */
		}
		all += sum;
	}
	return all;
}

/* New 4 KiB pages with such ints. */
static uint32_t *filled_kib(uint64_t kib)
{
	uint32_t *at = (uint32_t *)pages((kib * KIB + PAGE - 1) / PAGE);

	fill_kib(at, kib);
	return at;
}

/* A memfd with such ints, which is on tmpfs everywhere. */
static int filled_file(uint64_t kib)
{
	uint32_t *piece = filled_kib(PIECE_KIB);
	int fd = memfd_create("ktax", MFD_CLOEXEC);

	if (fd < 0)
		fail("memfd_create");
	for (; kib; kib -= PIECE_KIB)
		if (write(fd, piece, PIECE_KIB * KIB) != PIECE_KIB * KIB)
			fail("write");
	return fd;
}

/*
 * Copy one buffer to another, which begins 128 bytes behind a page boundary: with the C library's
 * memcpy(), and with a loop of our own over ints in blocks of 512 bytes. The last int is another
 * one in each pass, and has to arrive.
 */
static uint32_t *from, *to, passes;
static void (*copy)(uint32_t *to, const uint32_t *from, uint64_t kib);

static void copy_libc(uint32_t *to, const uint32_t *from, uint64_t kib)
{
	memcpy(to, from, kib * KIB);
}

static void copy_hand(uint32_t *to, const uint32_t *from, uint64_t kib)
{
	volatile uint32_t *at = to; /* one by one: neither vectors nor memcpy() */

	for (; kib; kib--)
		UNROLLED for (int i = 0; i < KIB_INTS; i++)
			*at++ = *from++;
}

static uint64_t pass(uint64_t kib)
{
	const uint64_t last = kib * KIB_INTS - 1;

	from[last] = ++passes;
	copy(to, from, kib);
	return to[last] == passes ? kib : 0;
}

static void bcopy_run(const struct order *o)
{
	const uint64_t kib = param(o, "mib", 8) * MIB_KIB, first = o->ops < kib ? o->ops : kib;

	from = filled_kib(kib);
	to = filled_kib(kib + PAGE / KIB) + 32;
	bandwidth(o, kib, kib, pass, "kib");
	sig("same", !memcmp(from, to, first * KIB));
}

static void bcopy_libc_run(const struct order *o)
{
	copy = copy_libc;
	bcopy_run(o);
}

static void bcopy_hand_run(const struct order *o)
{
	copy = copy_hand;
	bcopy_run(o);
}

WORKLOAD("bcopy-libc", bcopy_libc_run);
WORKLOAD("bcopy-hand", bcopy_hand_run);

/* Load and add up every int of a buffer, in blocks of 512 bytes. */
static uint64_t read_all(uint64_t kib)
{
	return sum_kib(buffer, kib);
}

static void mem_read_run(const struct order *o)
{
	const uint64_t kib = param(o, "mib", 8) * MIB_KIB;

	buffer = filled_kib(kib);
	bandwidth(o, kib, kib, read_all, "sum");
}

WORKLOAD("mem-read", mem_read_run);

/*
 * Store to every int of a buffer, in blocks of 512 bytes. Each int becomes one more than the first
 * of its KiB was, so that in the end it says how often it was written.
 */
static uint64_t write_all(uint64_t kib)
{
	volatile uint32_t *at = buffer; /* one by one: neither vectors nor memset() */

	for (uint64_t k = 0; k < kib; k++) {
		uint32_t times = *at + 1;
		UNROLLED for (int i = 0; i < KIB_INTS; i++)
			*at++ = times;
	}
	return kib;
}

static void mem_write_run(const struct order *o)
{
	const uint64_t kib = param(o, "mib", 8) * MIB_KIB;

	buffer = filled_kib(kib);
	memset(buffer, 0, kib * KIB);
	bandwidth(o, kib, kib, write_all, "kib");
	/* The warm-up wrote each once. */
	sig("written", sum_kib(buffer, kib) - kib * KIB_INTS);
}

WORKLOAD("mem-write", mem_write_run);

/* Read a file that is in memory from its beginning, 64 KiB at a time, and add up what was read. */
static uint64_t reread_file(uint64_t kib)
{
	uint64_t sum = 0;

	if (syscall(SYS_lseek, fd, 0, SEEK_SET))
		return 0;
	while (kib) {
		uint64_t piece = kib < PIECE_KIB ? kib : PIECE_KIB;
		*buffer = 0; /* what the last read left must not make this one's sum right */
		if (syscall(SYS_read, fd, buffer, piece * KIB) != (long)(piece * KIB))
			return 0;
		sum += sum_kib(buffer, piece);
		kib -= piece;
	}
	return sum;
}

static void file_reread_run(const struct order *o)
{
	const uint64_t kib = param(o, "mib", 8) * MIB_KIB;

	fd = filled_file(kib);
	buffer = (uint32_t *)pages(PIECE_KIB * KIB / PAGE);
	/* All of it once before: the first read of a page costs more, it marks the page as used. */
	bandwidth(o, kib, kib, reread_file, "sum");
}

WORKLOAD("file-reread", file_reread_run);

/* Add up a shared mapping of a file that is in memory; the warm-up takes the faults. */
static const uint32_t *map;

static uint64_t reread_map(uint64_t kib)
{
	return sum_kib(map, kib);
}

static void mmap_reread_run(const struct order *o)
{
	const uint64_t kib = param(o, "mib", 8) * MIB_KIB;

	map = mmap(NULL, kib * KIB, PROT_READ, MAP_SHARED, filled_file(kib), 0);
	if (map == MAP_FAILED)
		fail("mmap");
	bandwidth(o, kib, kib, reread_map, "sum");
}

WORKLOAD("mmap-reread", mmap_reread_run);

/*
 * A file of `n` 4 KiB pages, the first `cached` of which are in the page cache. It is a memfd: a
 * file of the kernel's own tmpfs, so that $TMPDIR does not matter, and without large folios.
 */
static int cached_file(uint64_t n, uint64_t cached)
{
	int fd = memfd_create("ktax", 0);

	if (fd < 0 || ftruncate(fd, n * PAGE))
		fail("memfd_create");
	char *map = mmap(NULL, cached * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		fail("mmap");
	/* By stores and not by write(), which could take large folios whatever we want. */
	if (madvise(map, cached * PAGE, MADV_NOHUGEPAGE) && errno != EINVAL)
		fail("madvise");
	for (uint64_t i = 0; i < cached; i++)
		map[i * PAGE] = 1;
	munmap(map, cached * PAGE);
	return fd;
}

/*
 * Map a cached file of `mib` MiB for all to see, store a byte every 16 KiB to the first tenth of
 * it, unmap it.
 */
enum { STRIDE = 16384 };

static uint64_t size, span;
static char *place;

static int mmap_latency_op(void)
{
	char *map = (char *)syscall(SYS_mmap, place, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		return 1;
	for (uint64_t at = 0; at < span; at += STRIDE)
		*(volatile char *)(map + at) = 1;
	return syscall(SYS_munmap, map, size) != 0;
}

static void mmap_latency_run(const struct order *o)
{
	size = param(o, "mib", 64) << 20;
	span = size / 10;
	fd = cached_file(size / PAGE, span / PAGE + 1);
	/* Always at the same place in the page tables. */
	place = pages(size / PAGE);
	munmap(place, size);
	measure(o, 2, mmap_latency_op, "maps");
	uint64_t touches = o->ops * ((span + STRIDE - 1) / STRIDE);
	sig("faults", region_faults);
	sig("faults-too-few", touches > region_faults ? touches - region_faults : 0);
	sig("faults-too-many", touches < region_faults ? region_faults - touches : 0);
}

WORKLOAD("mmap-latency", mmap_latency_run);

/*
 * First store to a fresh anonymous 4 KiB page. One operation is one fault: all pages are mapped
 * before the Region and stay until the end, so that nothing but faults is counted.
 */
static int page_fault_op(void)
{
	*(volatile char *)next = 1;
	next += PAGE;
	return 0;
}

static void page_fault_run(const struct order *o)
{
	const uint64_t warm_up = 512; /* one page table; the Region begins with a new one */

	next = pages(warm_up + o->ops);
	measure(o, warm_up, page_fault_op, "touches");
	sig("faults", region_faults);
}

WORKLOAD("page-fault", page_fault_run);

/* Store to an anonymous page that a child shares since its fork: the fault copies it. */
static int page_fault_cow_op(void)
{
	*(volatile char *)next = 2;
	next += PAGE;
	return 0;
}

/* Stands still until the end of the Region; its pages must then be as they were. */
static __attribute__((noreturn)) void keep(const char *map, uint64_t n)
{
	uint64_t changed = 0;

	kill(getpid(), SIGSTOP);
	for (uint64_t i = 0; i < n; i++)
		changed += map[i * PAGE] != 1;
	_exit(changed != 0);
}

static void page_fault_cow_run(const struct order *o)
{
	const uint64_t warm_up = 512, n = warm_up + o->ops;
	int status;

	next = pages(n);
	for (uint64_t i = 0; i < n; i++)
		next[i * PAGE] = 1;
	pid_t pid = worker();
	if (pid < 0)
		fail("clone");
	if (!pid)
		keep(next, n);
	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		fail("stop");
	measure(o, warm_up, page_fault_cow_op, "touches");
	sig("faults", region_faults);
	kill(pid, SIGCONT);
	sig("children", child_succeeded(pid));
}

WORKLOAD("page-fault-cow", page_fault_cow_run);

/*
 * First load from a cached page of a file that is mapped privately. A read fault maps what it
 * finds around it, 16 pages, but not beyond the mapping: so in mappings of 2 MiB each sixteenth
 * page is touched, and in mappings of one page every one. All mappings are of the same part of the
 * file, which keeps neighbours from becoming one.
 */
static uint64_t step;

static int page_fault_file_op(void)
{
	(void)*(volatile char *)next;
	next += step;
	return 0;
}

static void
page_fault_file(const struct order *o, uint64_t warm_up, uint64_t a_fault, uint64_t a_map)
{
	const int fd = cached_file(a_map, a_map), flags = MAP_PRIVATE | MAP_FIXED;
	const uint64_t maps = ((warm_up + o->ops) * a_fault + a_map - 1) / a_map;
	char *first = pages(maps * a_map);

	for (uint64_t i = 0; i < maps; i++) {
		char *at = first + i * a_map * PAGE;
		if (mmap(at, a_map * PAGE, PROT_READ, flags, fd, 0) == MAP_FAILED)
			fail("mmap");
	}
	next = first;
	step = a_fault * PAGE;
	measure(o, warm_up, page_fault_file_op, "touches");
	sig("faults", region_faults);
	/* Whether the neighbours came with it, and not only in the first window. */
	uint64_t before = faults();
	for (char *page = first; page < next; page += PAGE)
		(void)*(volatile char *)page;
	sig("later-faults", faults() - before);
}

static void page_fault_file_run(const struct order *o)
{
	page_fault_file(o, 64, 16, 512);
}

static void page_fault_file_1_run(const struct order *o)
{
	page_fault_file(o, 512, 1, 1);
}

WORKLOAD("page-fault-file", page_fault_file_run);
WORKLOAD("page-fault-file-1", page_fault_file_1_run);

/*
 * First store to each 2 MiB of anonymous memory that asks for huge pages. Where none comes there
 * is a fault all the same, of a small page: the pages that are resident afterwards tell.
 */
enum { HUGE = 512 }; /* pages */

static int page_fault_thp_op(void)
{
	*(volatile char *)next = 1;
	next += HUGE * PAGE;
	return 0;
}

static uint64_t resident(char *map, uint64_t n)
{
	unsigned char *vector = (unsigned char *)pages(n / PAGE + 1);
	uint64_t found = 0;

	if (mincore(map, n * PAGE, vector))
		fail("mincore");
	for (uint64_t i = 0; i < n; i++)
		found += vector[i] & 1;
	return found;
}

/* A kernel with less than 512 MiB has them off until it is told. Who else's choice it is stays. */
static void allow_huge_pages(void)
{
	int fd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_WRONLY);

	if (fd < 0 || write(fd, "madvise", 7) != 7 || close(fd))
		fail("transparent_hugepage");
}

static void page_fault_thp_run(const struct order *o)
{
	const uint64_t warm_up = 2, n = HUGE * (warm_up + o->ops);

	if (in_guest)
		allow_huge_pages();
	next = pages(n);
	if (madvise(next, n * PAGE, MADV_HUGEPAGE))
		fail("MADV_HUGEPAGE");
	measure(o, warm_up, page_fault_thp_op, "touches");
	uint64_t found = resident(next - HUGE * PAGE * o->ops, HUGE * o->ops);
	errno = 0;
	if (found != HUGE * o->ops)
		fail("no huge pages, see /sys/kernel/mm/transparent_hugepage/enabled");
	sig("faults", region_faults);
	sig("resident", found);
}

WORKLOAD("page-fault-thp", page_fault_thp_run);
