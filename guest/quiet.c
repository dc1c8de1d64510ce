/* SPDX-License-Identifier: MIT */
/*
 * Waits until the kernel is idle. Kernels test themselves and finish their boot in kernel threads
 * while init already runs, and what those execute would count as background of a Region.
 *
 * The kernel is idle if for three tenths of a second no task was created, and all tasks but this
 * one together ran for at most 0.2 % of the time: an idle preempt-rt kernel needs 0.14 %. A task's
 * CPU clock says how long it ran. Under icount, it is exact, and sleep costs no real time.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "freeze.h"

enum { WINDOW_NS = 100000000, SHARE = 500, QUIET_WINDOWS = 3, LAST_WINDOW = 50 };
enum { TASKS = 32768, NAMED = 8 };

/* What each task has run, in nanoseconds, by its number. */
struct seen {
	int newest, runnable;
	uint64_t clock[TASKS];
};

static void read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? 0 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[length > 0 ? length : 0] = 0;
}

/* Zero for a task that is gone, and on a kernel without such clocks. */
static uint64_t clock_of(int task)
{
	enum { SCHEDULED = 2 };
	struct timespec ran;

	if (syscall(SYS_clock_gettime, (clockid_t)(~task << 3 | SCHEDULED), &ran))
		return 0;
	return ran.tv_sec * 1000000000ull + ran.tv_nsec;
}

static void look(struct seen *to)
{
	char loads[128];

	/* "0.00 0.00 0.00 1/78 79": how many tasks are runnable, and the last that was created */
	read_text("/proc/loadavg", loads, sizeof(loads));
	if (sscanf(loads, "%*s %*s %*s %d/%*d %d", &to->runnable, &to->newest) != 2)
		to->runnable = 1, to->newest = 0;
	if (to->newest >= TASKS)
		to->newest = TASKS - 1;
	for (int task = 2; task <= to->newest; task++)
		to->clock[task] = clock_of(task);
}

/* A task that ended leaves less than there was, which is no idle kernel either. */
static uint64_t ran(const struct seen *before, const struct seen *after)
{
	uint64_t sum = 0;

	for (int task = 2; task <= after->newest; task++)
		sum += after->clock[task] - before->clock[task];
	return sum;
}

static bool is_quiet(const struct seen *before, const struct seen *after)
{
	return after->runnable <= 1 && after->newest == before->newest &&
	       ran(before, after) <= WINDOW_NS / SHARE;
}

/* Untrusted: a byte that the wire does not allow becomes `?`. */
static void name_of(int task, char *name, size_t size)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/comm", task);
	read_text(path, name, size);
	name[strcspn(name, "\n")] = 0;
	for (char *c = name; *c; c++)
		if (*c <= ' ' || *c > '~')
			*c = '?';
}

static void name_busy(const struct seen *before, const struct seen *after,
		      void (*busy)(const char *task))
{
	int named = 0;

	for (int task = 2; task <= after->newest && named < NAMED; task++) {
		char name[64];

		if (after->clock[task] - before->clock[task] <= WINDOW_NS / SHARE / 2)
			continue;
		name_of(task, name, sizeof(name));
		busy(*name ? name : "ended");
		named++;
	}
	if (!named)
		busy("unknown");
}

void quiet(void (*busy)(const char *task))
{
	static const struct timespec window = { .tv_nsec = WINDOW_NS };
	struct seen *seen = mmap(NULL, 2 * sizeof(*seen), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int last = 0;

	if (seen == MAP_FAILED)
		return;
	look(&seen[0]);
	for (int windows = 0, quiets = 0; quiets < QUIET_WINDOWS; windows++, last = !last) {
		if (windows == LAST_WINDOW) {
			name_busy(&seen[!last], &seen[last], busy);
			break;
		}
		nanosleep(&window, NULL);
		look(&seen[!last]);
		quiets = is_quiet(&seen[last], &seen[!last]) ? quiets + 1 : 0;
	}
	munmap(seen, 2 * sizeof(*seen));
}
