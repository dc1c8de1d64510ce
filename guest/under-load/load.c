/* SPDX-License-Identifier: MIT */
/*
 * A load counts in shared memory and is told there to stop. Its processes are children of the main
 * process, die with it, and are waited for after the Region, so that their time is not the job's.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "load.h"
#include "nanoseconds.h"

static volatile struct { uint64_t count; bool stop; int error; } *shared;
static pid_t pids[PROCESSES_MAX];
static unsigned processes;

void load_share(void)
{
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail("mmap");
}

bool load_goes_on(void)
{
	__atomic_fetch_add(&shared->count, 1, __ATOMIC_RELAXED);
	return !shared->stop;
}

static bool start(const struct load *load)
{
	pid_t pid = worker();

	if (!pid) {
		errno = 0;
		load->run(processes);
		if (!shared->stop)
			shared->error = errno;
		syscall(SYS_exit_group, !shared->stop);
	}
	if (pid > 0)
		pids[processes++] = pid;
	else
		shared->error = errno;
	return pid > 0;
}

/* Waits until it has counted beyond `count`, and so long at least; false where it has ended. */
static bool moves(uint64_t count, uint64_t least_ms)
{
	siginfo_t end = { .si_pid = 0 };
	bool runs = true;

	for (uint64_t ms = 0; runs && (shared->count <= count || ms < least_ms); ms++) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		runs = !waitid(P_PID, pids[0], &end, WEXITED | WNOHANG | WNOWAIT) && !end.si_pid;
	}
	return runs;
}

bool load_moves(uint64_t count)
{
	return moves(count, 0);
}

void load_start(const struct load *load, uint64_t lead_ms)
{
	unsigned wanted = load->release ? FOR_EACH_JOB * build.jobs : 1;
	bool runs = true;

	shared->count = 0; /* prepare() may have counted, too */
	while (runs && processes < wanted)
		runs = start(load);
	if (load->release)
		load->release();
	if (runs && moves(0, lead_ms))
		return;
	load_stop();
	fail("the load");
}

struct load_seen load_look(void)
{
	struct load_seen seen = { .count = shared->count, .nanoseconds = nanoseconds() };
	clockid_t clock;

	for (unsigned i = 0; i < processes; i++)
		if (!clock_getcpuclockid(pids[i], &clock))
			seen.cpu_us += nanoseconds_of(clock) / 1000;
	return seen;
}

void load_stop(void)
{
	bool good = true;

	shared->stop = true;
	for (unsigned i = 0; i < processes; i++)
		good &= child_succeeded(pids[i]);
	errno = shared->error;
	if (!good)
		fail("the load");
}
