/* SPDX-License-Identifier: MIT */
/* Before the host takes a Snapshot, in a guest and in a KVM host alike: idle, then stopped. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "guest.h"

enum { WINDOW_NS = 100000000, SHARE = 500, QUIET_WINDOWS = 3, LAST_WINDOW = 50 };
enum { TASKS = 32768, NAMED = 8 };

/* The time that each task has run, in nanoseconds, by its number. */
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

/*
 * Waits until the kernel is idle. Kernels test themselves and finish their boot in kernel threads
 * while init already runs, and what those execute would count as background of a Region.
 *
 * The kernel is idle if for three tenths of a second no task was created, and all tasks but this
 * one together ran for at most 0.2 % of the time: an idle preempt-rt kernel needs 0.14 %. A task's
 * CPU clock says how long it ran. Under icount, it is exact, and sleep costs no real time.
 */
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

enum { FREEZE = 0x505, MICROSECONDS = 1000, JUMP_BYTES = 2 };

extern const char ktax_standstill[];

/* A timed guest may get the signal before it stands there; then the next one counts. */
static void go_on(int signal, siginfo_t *info, void *context)
{
	greg_t *at = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];

	(void)signal, (void)info;
	if (*at == (greg_t)ktax_standstill)
		*at += JUMP_BYTES;
}

/*
 * The instruction at which the host stops the machine. When it does, QEMU's clock may jump to the
 * next timer or not, as QEMU's threads happen to run. So the program stays at one instruction until
 * a signal of its own timer: either way, the timers interrupt this instruction, at the same virtual
 * times. From there on two boots are the same, also for a kernel that takes random bits from the
 * time-stamp counter.
 */
__attribute__((noinline, noclone)) void standstill(void)
{
	const struct timeval interval = { .tv_usec = MICROSECONDS };
	const struct sigaction action = { .sa_sigaction = go_on, .sa_flags = SA_SIGINFO };
	struct sigaction before;

	sigaction(SIGALRM, &action, &before);
	setitimer(ITIMER_REAL, &(struct itimerval){ interval, interval }, NULL);
	__asm__ volatile("out %0, %1\n"
			 ".global ktax_standstill\n"
			 "ktax_standstill: .byte 0xeb, 0xfe\n" /* jumps to itself */
			 :: "a"((unsigned char)1), "d"((unsigned short)FREEZE) : "memory");
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	sigaction(SIGALRM, &before, NULL);
}
