/* SPDX-License-Identifier: MIT */
/* The Region around one function, and what is kept of it: times, resources, counters. */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest.h"
#include "tools.h"

uint64_t region_start, region_ticks, region_faults, boot_ticks;

/*
 * The kernel's counters around the Region, children and threads included. Only if the order asks
 * for them, because inherited counters make every fork slower. A counter that cannot be opened
 * reports why.
 */
static struct counter {
	const char *name;
	uint32_t type, config;
	int fd, error;
} counters[] = {
	{ "task-clock-ns", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, -1, 0 },
	{ "cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, -1, 0 },
	{ "cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, -1, 0 },
	{ "instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, -1, 0 },
	{ "cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, -1, 0 },
	{ "cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, -1, 0 },
};

#define EACH(C) \
	for (struct counter *C = counters; C < counters + sizeof(counters) / sizeof(*counters); C++)

static bool wanted;

void counters_want(bool want)
{
	wanted = want;
}

void counters_open(void)
{
	if (!wanted)
		return;
	EACH(c) {
		struct perf_event_attr attributes = {
			.size = sizeof(attributes),
			.type = c->type,
			.config = c->config,
			.inherit = 1,
			.disabled = 1,
			.exclude_hv = 1,
			.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		};
		c->fd = syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
		c->error = c->fd < 0 ? errno : 0;
	}
}

/* Counts workers that exist already, too. */
static void counters_start(void)
{
	EACH(c)
		ioctl(c->fd, PERF_EVENT_IOC_ENABLE, 0);
}

static void counters_stop(void)
{
	EACH(c)
		ioctl(c->fd, PERF_EVENT_IOC_DISABLE, 0);
}

static const char *reason(const struct counter *c)
{
	switch (c->error) {
	case 0:
		return "it never ran: other users hold the counters";
	case ENOENT:
	case ENODEV:
	case EOPNOTSUPP:
		return "this machine has no such counter";
	case EACCES:
	case EPERM:
		return "needs CAP_PERFMON or kernel.perf_event_paranoid of 1 or less";
	default:
		return strerror(c->error);
	}
}

static void counters_say(void)
{
	struct { uint64_t count, enabled, running; } seen;

	if (!wanted)
		return;
	EACH(c) {
		bool whole = c->fd >= 0 && read(c->fd, &seen, sizeof(seen)) == sizeof(seen) && seen.running;
		if (!whole)
			SAY("uncounted ", c->name, " ", reason(c));
		else /* scaled: the kernel may have shared one hardware counter between events */
			value(c->name, (unsigned __int128)seen.count * seen.enabled / seen.running);
		close(c->fd);
	}
}

/*
 * The resources that the Region used: of this process and of the children that it has waited for.
 * Under icount there is no usable clock, because time is the number of instructions.
 */
struct usage {
	uint64_t nanoseconds;
	struct rusage self, children;
};

static struct usage before, after;
static bool left;

static void look(struct usage *u)
{
	getrusage(RUSAGE_SELF, &u->self);
	getrusage(RUSAGE_CHILDREN, &u->children);
}

void region_enter(void)
{
	region_leave(); /* touches the same pages as the end, so that the first touch is outside */
	if (!counted)
		counters_start();
	look(&before);
	region_start = 0; /* its page may still be shared with a child */
	before.nanoseconds = nanoseconds();
}

void region_leave(void)
{
	after.nanoseconds = nanoseconds();
	if (!counted)
		counters_stop();
	look(&after);
	region_faults = after.self.ru_minflt - before.self.ru_minflt;
	left = true;
}

static uint64_t microseconds(struct timeval t)
{
	return t.tv_sec * 1000000ull + t.tv_usec;
}

#define GREW(FIELD) (after.self.FIELD - before.self.FIELD + \
		     after.children.FIELD - before.children.FIELD)
#define SPENT(FIELD) (microseconds(after.self.FIELD) - microseconds(before.self.FIELD) + \
		      microseconds(after.children.FIELD) - microseconds(before.children.FIELD))

void usage_say(void)
{
	if (!left)
		return;
	value("page-faults", GREW(ru_minflt) + GREW(ru_majflt));
	value("context-switches", GREW(ru_nvcsw) + GREW(ru_nivcsw));
	if (counted)
		return;
	value("nanoseconds", after.nanoseconds - before.nanoseconds);
	value("user-us", SPENT(ru_utime));
	value("system-us", SPENT(ru_stime));
	counters_say();
}

/*
 * Runs the operation until one fails. Warm-up and Region use this one loop: an inlined copy could
 * be on a page that is touched for the first time inside the Region.
 */
static __attribute__((noinline, noclone)) uint64_t repeat(uint64_t times, int (*op)(void))
{
	uint64_t done = 0;

	while (done < times && op() == 0)
		done++;
	return done;
}

void measure(const struct order *o, uint64_t warm_up, int (*op)(void), const char *what)
{
	uint64_t done;

	errno = 0;
	if (repeat(warm_up, op) != warm_up)
		fail("warm-up");
	region_begin();
	done = repeat(o->ops, op);
	region_end();
	sig(what, done);
	sig("failed", o->ops - done);
}

uint64_t faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

char *pages(uint64_t n)
{
	const uintptr_t huge = 2ul << 20;
	size_t size = n * PAGE + huge;
	char *all = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	/* 4 KiB pages at a fixed place in the page tables give the same faults on every kernel. */
	if (all == MAP_FAILED)
		fail("mmap");
	if (madvise(all, size, MADV_NOHUGEPAGE) && errno != EINVAL) /* EINVAL: no THP to avoid */
		fail("madvise");
	return (char *)(((uintptr_t)all + huge - 1) & ~(huge - 1));
}

