/* SPDX-License-Identifier: MIT */
/* Processes, threads, pinned CPUs and limits for workloads. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools.h"

/* Bare system calls make processes: the C library's fork() runs handlers and takes locks. */
pid_t child(void)
{
	return syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

pid_t worker(void)
{
	pid_t parent = getpid(), pid = child();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (syscall(SYS_getppid) != parent) /* it died before it could be said */
		_exit(1);
	return 0;
}

bool child_succeeded(pid_t pid)
{
	int status;

	return syscall(SYS_wait4, pid, &status, 0, NULL) == pid && status == 0;
}

pid_t child_echo(int in, int out, int close_fd)
{
	char byte;
	pid_t pid = child();

	if (pid < 0)
		fail("clone");
	if (pid > 0)
		return pid;
	close(close_fd); /* or the child itself would keep its input open forever */
	while (syscall(SYS_read, in, &byte, 1) == 1)
		if (syscall(SYS_write, out, &byte, 1) != 1)
			_exit(1);
	_exit(0);
}

int child_round(void)
{
	pid_t pid = child();

	if (!pid)
		syscall(SYS_exit_group, 0);
	return pid < 0 || !child_succeeded(pid);
}

enum { STACK = 64 << 10 };

static pthread_t members[TEAM_MAX];
static unsigned count;
static void (*work_of_members)(unsigned);

pthread_t team_thread(void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	errno = pthread_create(&thread, &attributes, run, argument);
	if (errno)
		fail("pthread_create");
	pthread_attr_destroy(&attributes);
	return thread;
}

static void *run_member(void *member)
{
	work_of_members((uintptr_t)member);
	return NULL;
}

void team_start(unsigned n, void (*work)(unsigned member))
{
	errno = EINVAL;
	if (n > TEAM_MAX)
		fail("threads");
	work_of_members = work;
	for (count = 0; count < n; count++)
		members[count] = team_thread(run_member, (void *)(uintptr_t)count);
}

void team_join(void)
{
	for (unsigned i = 0; i < count; i++)
		pthread_join(members[i], NULL);
}

static cpu_set_t allowed; /* filled once: it is one CPU after the first team_pin() */

unsigned team_cpus(void)
{
	if (!CPU_COUNT(&allowed) && sched_getaffinity(0, sizeof(allowed), &allowed))
		fail("sched_getaffinity");
	return CPU_COUNT(&allowed);
}

void team_pin(unsigned member)
{
	unsigned left = member % team_cpus();
	cpu_set_t one;
	int cpu = 0;

	for (; left || !CPU_ISSET(cpu, &allowed); cpu++)
		left -= CPU_ISSET(cpu, &allowed) != 0;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		fail("sched_setaffinity");
}

void raise_limit(int resource, uint64_t wanted, const char *name)
{
	struct rlimit limit;

	getrlimit(resource, &limit);
	if (limit.rlim_max < wanted)
		limit.rlim_max = wanted;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(resource, &limit))
		fail(name);
}
