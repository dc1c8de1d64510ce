/* SPDX-License-Identifier: MIT */
/*
 * Why a program does not repeat: it runs twice under ptrace, and how often a system call, or the
 * time-stamp counter, gave the two something else is said as `value differs-NAME N`. The first call
 * that the other run does not have is said as `diverges-NAME`.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "noise.h"

enum { MOST_CALLS = 1 << 20, MOST_TASKS = 256, CALLS = 512, TSC = CALLS - 1 };

/* The second run has other process IDs than the first; in two guests they are the same. */
enum { NONE = -1, ITS_ID = -2 };

/* Of these calls the data counts, too: which argument points to it, and how much it is; 0: as much
   as the call returns. */
static const struct output {
	int number;
	const char *name;
	int argument;
	size_t size;
} outputs[] = {
	{ SYS_read, "read", 1, 0 },
	{ SYS_pread64, "pread64", 1, 0 },
	{ SYS_getrandom, "getrandom", 0, 0 },
	{ SYS_getdents64, "getdents64", 1, 0 },
	{ SYS_readlink, "readlink", 1, 0 },
	{ SYS_readlinkat, "readlinkat", 2, 0 },
	{ SYS_clock_gettime, "clock-gettime", 1, sizeof(struct timespec) },
	{ SYS_gettimeofday, "gettimeofday", 0, sizeof(struct timeval) },
	{ SYS_times, "times", 0, sizeof(struct tms) },
	{ SYS_getrusage, "getrusage", 1, sizeof(struct rusage) },
	{ SYS_stat, "stat", 1, sizeof(struct stat) },
	{ SYS_lstat, "lstat", 1, sizeof(struct stat) },
	{ SYS_fstat, "fstat", 1, sizeof(struct stat) },
	{ SYS_newfstatat, "newfstatat", 2, sizeof(struct stat) },
	{ SYS_statx, "statx", 4, 256 },
	{ SYS_sysinfo, "sysinfo", 0, sizeof(struct sysinfo) },
	{ SYS_uname, "uname", 0, sizeof(struct utsname) },
	/* What returns something of its own. */
	{ SYS_time, "time", NONE, 0 },
	{ SYS_mmap, "mmap", NONE, 0 },
	{ SYS_brk, "brk", NONE, 0 },
	{ SYS_mremap, "mremap", NONE, 0 },
	{ SYS_getpid, "getpid", ITS_ID, 0 },
	{ SYS_getppid, "getppid", ITS_ID, 0 },
	{ SYS_gettid, "gettid", ITS_ID, 0 },
	{ SYS_fork, "fork", ITS_ID, 0 },
	{ SYS_vfork, "vfork", ITS_ID, 0 },
	{ SYS_clone, "clone", ITS_ID, 0 },
	{ SYS_clone3, "clone3", ITS_ID, 0 },
	{ SYS_wait4, "wait4", ITS_ID, 0 },
	{ SYS_poll, "poll", NONE, 0 },
	{ SYS_epoll_wait, "epoll-wait", NONE, 0 },
	{ SYS_futex, "futex", NONE, 0 },
	{ SYS_set_tid_address, "set-tid-address", ITS_ID, 0 },
	{ TSC, "rdtsc", NONE, 0 },
};

struct call {
	uint16_t task, number;
	uint64_t result;
};

static struct trace {
	struct call *calls;
	size_t count;
} traces[2];

static struct task {
	pid_t pid;
	bool has_begun;
	uint64_t number, arguments[6];
} tasks[MOST_TASKS];

static struct task *task_of(pid_t pid)
{
	for (struct task *task = tasks; task < tasks + MOST_TASKS; task++) {
		if (!task->pid)
			task->pid = pid;
		if (task->pid == pid)
			return task;
	}
	return NULL;
}

static const struct output *output_of(uint64_t number)
{
	for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++)
		if (outputs[i].number == (int)number)
			return &outputs[i];
	return NULL;
}

static uint64_t with_data(const struct task *task, uint64_t result)
{
	static unsigned char data[1 << 16];
	const struct output *output = output_of(task->number);

	if (output && output->argument == ITS_ID)
		return 0;
	if (!output || output->argument == NONE || (int64_t)result < 0)
		return result;
	size_t size = output->size ? output->size : result;
	struct iovec here = { data, size < sizeof(data) ? size : sizeof(data) };
	struct iovec there = { (void *)task->arguments[output->argument], here.iov_len };
	ssize_t length = process_vm_readv(task->pid, &here, 1, &there, 1, 0);
	for (ssize_t i = 0; i < length; i++)
		result = (result ^ data[i]) * 0x100000001b3;
	return result;
}

static void record(struct trace *trace, const struct task *task, uint64_t number, uint64_t result)
{
	if (trace->count < MOST_CALLS)
		trace->calls[trace->count++] =
			(struct call){ (uint16_t)(task - tasks), (uint16_t)(number % CALLS), result };
}

static void at_call(struct trace *trace, struct task *task)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, task->pid, sizeof(info), &info) <= 0)
		return;
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		task->number = info.entry.nr;
		memcpy(task->arguments, info.entry.args, sizeof(task->arguments));
	} else if (info.op == PTRACE_SYSCALL_INFO_EXIT) {
		record(trace, task, task->number, with_data(task, (uint64_t)info.exit.rval));
	}
}

/* Reading the time-stamp counter is a fault, also in the vDSO: here it is done for the program. */
static bool is_rdtsc(struct trace *trace, const struct task *task)
{
	struct user_regs_struct registers;

	if (ptrace(PTRACE_GETREGS, task->pid, NULL, &registers))
		return false;
	long code = ptrace(PTRACE_PEEKTEXT, task->pid, registers.rip, NULL);
	size_t length = (code & 0xffff) == 0x310f ? 2 : (code & 0xffffff) == 0xf9010f ? 3 : 0;
	uint64_t now = ticks();
	if (!length)
		return false;
	registers.rax = now & 0xffffffff;
	registers.rdx = now >> 32;
	if (length == 3)
		registers.rcx = 0;
	registers.rip += length;
	record(trace, task, TSC, now);
	return !ptrace(PTRACE_SETREGS, task->pid, NULL, &registers);
}

void noise_begin(void)
{
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
}

int noise_run(pid_t program, int which)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
	                     PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
	struct trace *trace = &traces[which];
	int status, ended = -1;

	memset(tasks, 0, sizeof(tasks));
	trace->calls = malloc(MOST_CALLS * sizeof(*trace->calls));
	if (!trace->calls || waitpid(program, &status, 0) != program ||
	    ptrace(PTRACE_SETOPTIONS, program, NULL, options))
		fail("ptrace");
	task_of(program)->has_begun = true;
	ptrace(PTRACE_SYSCALL, program, NULL, NULL);
	for (pid_t pid; ended == -1 && (pid = waitpid(-1, &status, __WALL)) > 0;) {
		struct task *task = task_of(pid);
		int signal = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
		if (!signal) {
			if (pid == program)
				ended = status;
			continue;
		}
		if (signal == (SIGTRAP | 0x80)) {
			if (task)
				at_call(trace, task);
			signal = 0;
		} else if (status >> 16 || (signal == SIGSTOP && task && !task->has_begun) ||
		           (signal == SIGSEGV && task && is_rdtsc(trace, task))) {
			signal = 0;
		}
		if (task)
			task->has_begun = true; /* a new task begins with a SIGSTOP that is ours */
		ptrace(PTRACE_SYSCALL, pid, NULL, (long)signal);
	}
	return ended;
}

/* The next call of a task, from `at` on. */
static size_t next(const struct trace *trace, size_t at, int task)
{
	while (at < trace->count && trace->calls[at].task != task)
		at++;
	return at;
}

static void say_calls(const char *what, int number, uint64_t count)
{
	const struct output *output = output_of((uint64_t)number);
	char name[NAME_MAX_LENGTH + 1];

	if (output)
		snprintf(name, sizeof(name), "%s-%s", what, output->name);
	else
		snprintf(name, sizeof(name), "%s-call-%d", what, number);
	value(name, count);
}

void noise_say(void)
{
	static uint64_t differs[CALLS], diverges[CALLS];

	for (int task = 0; task < MOST_TASKS; task++) {
		size_t one = next(&traces[0], 0, task), other = next(&traces[1], 0, task);
		while (one < traces[0].count && other < traces[1].count) {
			const struct call *a = &traces[0].calls[one], *b = &traces[1].calls[other];
			if (a->number != b->number) {
				diverges[a->number]++;
				break;
			}
			differs[a->number] += a->result != b->result;
			one = next(&traces[0], one + 1, task);
			other = next(&traces[1], other + 1, task);
		}
	}
	for (int number = 0; number < CALLS; number++) {
		if (differs[number])
			say_calls("differs", number, differs[number]);
		if (diverges[number])
			say_calls("diverges", number, diverges[number]);
	}
}
