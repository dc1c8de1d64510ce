/* SPDX-License-Identifier: MIT */
/*
 * One call, made on several CPUs at once, by workers each on a CPU of its own: threads of one
 * process, which share everything, or processes, which share nothing that they can avoid to. They
 * are ready before the Region, and end behind it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools.h"

enum { SCALE_MAX = 32 };

/* An address space: page faults in a mapping of each worker, and mappings that come and go. */
enum { FAULTS = 128 };

/* Of each worker, in a cache line of its own. */
static struct own {
	char *area;
	unsigned faulted;
} __attribute__((aligned(64))) owns[SCALE_MAX];

/* A page that nobody may touch is around each: neighbours would become one mapping. */
static int prepare_faults(unsigned worker)
{
	(void)worker;
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		return -1;
	for (unsigned i = 0; i < SCALE_MAX; i++) {
		owns[i].area = mmap(NULL, (FAULTS + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (owns[i].area == MAP_FAILED)
			return -1;
		owns[i].area += PAGE;
		if (mprotect(owns[i].area, FAULTS * PAGE, PROT_READ | PROT_WRITE))
			return -1;
	}
	return 0;
}

static int fault(unsigned worker)
{
	struct own *own = &owns[worker];
	unsigned page = own->faulted++ % FAULTS;

	*(volatile char *)(own->area + page * PAGE) = 1;
	return page == FAULTS - 1 ? madvise(own->area, FAULTS * PAGE, MADV_DONTNEED) : 0;
}

static int map(unsigned worker)
{
	(void)worker;
	long page = syscall(SYS_mmap, NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return page < 0 ? -1 : (int)syscall(SYS_munmap, page, PAGE);
}

/* A table of files, a file, a directory, a pipe, a pair of sockets. */
enum { PATH_BYTES = 320 };

static char directory[PATH_BYTES - 32], path[PATH_BYTES], names[SCALE_MAX][PATH_BYTES];
static int file, ends[2];

static int create(const char *name)
{
	return (int)syscall(SYS_open, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
}

/* Of threads all names are in one directory, of processes each is in its own. */
static int prepare_file(unsigned worker)
{
	snprintf(directory, sizeof(directory), "%s/%u", scratch_directory(), worker);
	if (mkdir(directory, 0700))
		return -1;
	snprintf(path, sizeof(path), "%s/file", directory);
	for (unsigned i = 0; i < SCALE_MAX; i++)
		snprintf(names[i], sizeof(names[i]), "%s/new-%u", directory, i);
	file = create(path);
	return file < 0;
}

static int dup_close(unsigned worker)
{
	long copy = syscall(SYS_dup, file);

	(void)worker;
	return copy < 0 || syscall(SYS_close, copy);
}

static int open_close(unsigned worker)
{
	long opened = syscall(SYS_open, path, O_RDONLY | O_CLOEXEC);

	(void)worker;
	return opened < 0 || syscall(SYS_close, opened);
}

static int create_unlink(unsigned worker)
{
	int created = create(names[worker]);

	return created < 0 || syscall(SYS_close, created) || syscall(SYS_unlink, names[worker]);
}

static int prepare_pipe(unsigned worker)
{
	(void)worker;
	return pipe2(ends, O_CLOEXEC);
}

/* Both ends send and receive: a byte goes to the other one, and is read there. */
static int prepare_unix(unsigned worker)
{
	int both[2];

	(void)worker;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both))
		return -1;
	ends[0] = both[0];
	ends[1] = both[1];
	return 0;
}

static int send_byte(unsigned worker)
{
	char byte = 1;

	(void)worker;
	return syscall(SYS_write, ends[1], &byte, 1) != 1 || syscall(SYS_read, ends[0], &byte, 1) != 1;
}

/* All calls, and those of tasks: a call that does nothing, futexes, forks, signals. */
static int word;
static __thread volatile sig_atomic_t caught;

static int nothing(unsigned worker)
{
	(void)worker;
	return syscall(SYS_getppid) < 0;
}

/* The kernel finds under its lock that the word is not what was expected. */
static int wait_in_vain(unsigned worker)
{
	(void)worker;
	long waited = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);

	return waited != -1 || errno != EAGAIN;
}

static int fork_once(unsigned worker)
{
	(void)worker;
	return child_round();
}

static void handle(int number)
{
	(void)number;
	caught++;
}

static int prepare_signals(unsigned worker)
{
	const struct sigaction action = { .sa_handler = handle };

	(void)worker;
	return sigaction(SIGUSR1, &action, NULL);
}

static int catch_one(unsigned worker)
{
	sig_atomic_t before = caught;

	(void)worker;
	if (syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), SIGUSR1))
		return -1;
	return caught != before + 1;
}

/*
 * The parameter `call` is an index into it: it is in the order of `choices` in scale.toml. Threads
 * share what is prepared once; processes prepare it themselves. Both functions return 0 for a
 * success.
 */
static const struct scale_call {
	const char *name;
	int (*prepare)(unsigned worker); /* or NULL */
	int (*op)(unsigned worker);
} scale_calls[] = {
	{ "getppid", NULL, nothing },
	{ "page-fault", prepare_faults, fault },
	{ "mmap", NULL, map },
	{ "dup", prepare_file, dup_close },
	{ "open", prepare_file, open_close },
	{ "create", prepare_file, create_unlink },
	{ "pipe", prepare_pipe, send_byte },
	{ "unix", prepare_unix, send_byte },
	{ "futex", NULL, wait_in_vain },
	{ "fork", NULL, fork_once },
	{ "signal", prepare_signals, catch_one },
};

static const unsigned scale_calls_count = sizeof(scale_calls) / sizeof(scale_calls[0]);

enum { WARM_UP = 200 };

static struct common {
	sem_t arrived, done, leave;
	sem_t go[SCALE_MAX];
	uint64_t calls[SCALE_MAX];
} *common;

static const struct scale_call *call;
static uint64_t ops, cpus, is_own;

/* The first workers make what is left over by a division. */
static uint64_t share_of(unsigned worker)
{
	return ops / cpus + (worker < ops % cpus);
}

/* Ends at a failure: whoever sent and cannot receive would fill the pipe of all, and wait. */
static uint64_t repeat(unsigned worker, uint64_t times)
{
	uint64_t done = 0;

	while (done < times && call->op(worker) == 0)
		done++;
	return done;
}

static void work(unsigned worker)
{
	team_pin(worker);
	if (is_own && call->prepare && call->prepare(worker))
		fail(call->name);
	if (repeat(worker, WARM_UP) != WARM_UP)
		fail("warm-up");
	sem_post(&common->arrived);
	sem_wait(&common->go[worker]);
	common->calls[worker] = repeat(worker, share_of(worker));
	sem_post(&common->done);
	sem_wait(&common->leave); /* the end of a worker is not in the Region */
}

static void each(int (*do_it)(sem_t *), sem_t *semaphore)
{
	for (uint64_t i = 0; i < cpus; i++)
		do_it(semaphore);
}

static void start(pid_t *processes)
{
	if (!is_own)
		team_start(cpus, work);
	for (unsigned i = 0; is_own && i < cpus; i++) {
		processes[i] = worker();
		if (processes[i] < 0)
			fail("fork");
		if (processes[i] == 0) {
			work(i);
			_exit(0);
		}
	}
	each(sem_wait, &common->arrived);
	usleep(1000); /* the last is still on its way from there to where it waits */
}

static void end(const pid_t *processes)
{
	uint64_t done = 0;

	each(sem_post, &common->leave);
	if (!is_own)
		team_join();
	for (unsigned i = 0; is_own && i < cpus; i++)
		if (!child_succeeded(processes[i]))
			fail("a worker");
	for (unsigned i = 0; i < cpus; i++)
		done += common->calls[i];
	sig("calls", done);
	sig("failed", ops - done);
}

static void scale_run(const struct order *o)
{
	const uint64_t index = param(o, "call", 0);
	pid_t processes[SCALE_MAX];

	cpus = param(o, "cpus", 1);
	is_own = param(o, "objects", 0);
	ops = o->ops;
	errno = EINVAL;
	if (index >= scale_calls_count || !cpus || cpus > SCALE_MAX)
		fail("a call, or 1 to 32 CPUs");
	if (in_guest && cpus > team_cpus())
		fail("cpus: there are fewer here");
	call = &scale_calls[index];
	common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (common == MAP_FAILED)
		fail("mmap");
	sem_init(&common->arrived, 1, 0);
	for (unsigned i = 0; i < cpus; i++)
		sem_init(&common->go[i], 1, 0);
	sem_init(&common->done, 1, 0);
	sem_init(&common->leave, 1, 0);
	scratch_directory();
	if (!is_own && call->prepare && call->prepare(0))
		fail(call->name);
	start(processes);
	/* A worker that wakes here may keep this CPU until it is done: the others go before it. */
	team_pin(cpus - 1);
	region_begin();
	for (unsigned i = 0; i < cpus; i++)
		sem_post(&common->go[i]);
	each(sem_wait, &common->done);
	region_end();
	end(processes);
}

WORKLOAD("scale", scale_run);
