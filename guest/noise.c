/* SPDX-License-Identifier: MIT */
/*
 * Why a program does not repeat: it runs twice under ptrace, and how often a system call, or the
 * time-stamp counter, gave the two something else is said as `value differs-NAME N`. The first call
 * that the other run does not have is said as `diverges-NAME`. A run ends after MOST_CALLS, then
 * `value traced-calls N`.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hash.h"
#include "noise-calls.h"
#include "noise.h"

/* Each call is two stops, 0.1 ms under TCG. */
enum { MOST_CALLS = 1 << 16, MOST_TASKS = 512 };

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
	return length > 0 ? hash_bytes(result, data, (size_t)length) : result;
}

static bool is_full(const struct trace *trace)
{
	return trace->count == MOST_CALLS;
}

static void record(struct trace *trace, const struct task *task, uint64_t number, uint64_t result)
{
	if (!is_full(trace))
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

bool noise_run(pid_t program, int which, int *ended)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
	                     PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
	struct trace *trace = &traces[which];
	int status;

	memset(tasks, 0, sizeof(tasks));
	trace->calls = malloc(MOST_CALLS * sizeof(*trace->calls));
	if (!trace->calls || waitpid(program, &status, 0) != program ||
	    ptrace(PTRACE_SETOPTIONS, program, NULL, options))
		fail("ptrace");
	task_of(program)->has_begun = true;
	ptrace(PTRACE_SYSCALL, program, NULL, NULL);
	for (pid_t pid; !is_full(trace) && (pid = waitpid(-1, &status, __WALL)) > 0;) {
		struct task *task = task_of(pid);
		int signal = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
		if (!signal) {
			if (pid != program)
				continue;
			*ended = status;
			return true;
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
	if (!is_full(trace))
		fail("waitpid");
	return false;
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
	if (is_full(&traces[0]) || is_full(&traces[1]))
		value("traced-calls", MOST_CALLS);
	for (int number = 0; number < CALLS; number++) {
		if (differs[number])
			say_calls("differs", number, differs[number]);
		if (diverges[number])
			say_calls("diverges", number, diverges[number]);
	}
}
