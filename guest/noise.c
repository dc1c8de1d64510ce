/* SPDX-License-Identifier: MIT */
/*
 * What a program is given: it runs under ptrace, and each system call, and each reading of the
 * time-stamp counter, is said as `call TASK NUMBER HASH`. The run ends after MOST_CALLS.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hash.h"
#include "noise-calls.h"
#include "noise.h"

/* Each call is two stops, 0.1 ms under TCG, and at most 24 bytes of the answer. */
enum { MOST_CALLS = 1 << 15, MOST_TASKS = 512 };

static unsigned calls;

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

	if (!output || (int64_t)result < 0)
		return result;
	size_t size = output->size ? output->size : result;
	struct iovec here = { data, size < sizeof(data) ? size : sizeof(data) };
	struct iovec there = { (void *)task->arguments[output->argument], here.iov_len };
	ssize_t length = process_vm_readv(task->pid, &here, 1, &there, 1, 0);
	return length > 0 ? hash_bytes(result, data, (size_t)length) : result;
}

static void record(const struct task *task, uint64_t number, uint64_t result)
{
	char line[32];

	snprintf(line, sizeof(line), "call %d %d %u", (int)(task - tasks), (int)(number % CALLS),
	         (uint32_t)hash_bytes(HASH_START, &result, sizeof(result)));
	SAY(line);
	calls++;
}

static void at_call(struct task *task)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, task->pid, sizeof(info), &info) <= 0)
		return;
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		task->number = info.entry.nr;
		memcpy(task->arguments, info.entry.args, sizeof(task->arguments));
		if (task->number == SYS_exit || task->number == SYS_exit_group)
			record(task, task->number, task->arguments[0]); /* it does not return */
	} else if (info.op == PTRACE_SYSCALL_INFO_EXIT) {
		record(task, task->number, with_data(task, (uint64_t)info.exit.rval));
	}
}

/* Reading the time-stamp counter is a fault, also in the vDSO: here it is done for the program. */
static bool is_rdtsc(const struct task *task)
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
	record(task, TSC, now);
	return !ptrace(PTRACE_SETREGS, task->pid, NULL, &registers);
}

void noise_begin(void)
{
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
}

/* A process ends after its threads, and those after whoever traces them has waited. */
static void end_tasks(void)
{
	for (struct task *task = tasks; task < tasks + MOST_TASKS && task->pid; task++)
		kill(task->pid, SIGKILL);
	for (struct task *task = tasks + MOST_TASKS; task-- > tasks;)
		if (task->pid)
			waitpid(task->pid, NULL, __WALL);
}

bool noise_run(pid_t program, int *ended)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
	                     PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
	int status;

	if (waitpid(program, &status, 0) != program ||
	    ptrace(PTRACE_SETOPTIONS, program, NULL, options))
		fail("ptrace");
	task_of(program)->has_begun = true;
	ptrace(PTRACE_SYSCALL, program, NULL, NULL);
	for (pid_t pid; calls < MOST_CALLS && (pid = waitpid(-1, &status, __WALL)) > 0;) {
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
				at_call(task);
			signal = 0;
		} else if (status >> 16 || (signal == SIGSTOP && task && !task->has_begun) ||
		           (signal == SIGSEGV && task && is_rdtsc(task))) {
			signal = 0;
		}
		if (task)
			task->has_begun = true; /* a new task begins with a SIGSTOP that is ours */
		ptrace(PTRACE_SYSCALL, pid, NULL, (long)signal);
	}
	if (calls < MOST_CALLS)
		fail("waitpid");
	end_tasks();
	return false;
}
