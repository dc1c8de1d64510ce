/* SPDX-License-Identifier: MIT */
/*
 * The kernel's counters around the Region, children and threads included. Only if the order asks
 * for them, because inherited counters make every fork slower. A counter that cannot be opened
 * reports why.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest.h"

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
void counters_start(void)
{
	EACH(c)
		ioctl(c->fd, PERF_EVENT_IOC_ENABLE, 0);
}

void counters_stop(void)
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

void counters_say(void)
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
