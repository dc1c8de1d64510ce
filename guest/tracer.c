/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracer.h"

enum { MOST_TASKS = 512 };

static struct task tasks[MOST_TASKS];

unsigned tracer_index(const struct task *task)
{
	return (unsigned)(task - tasks);
}

/* NULL: there are too many. */
static struct task *task_of(pid_t pid)
{
	struct task *free = NULL;

	for (struct task *task = tasks; task < tasks + MOST_TASKS; task++) {
		if (task->pid == pid)
			return task;
		if (!task->pid && !free)
			free = task;
	}
	if (free) {
		char *path = free->path;
		*free = (struct task){ .pid = pid, .path = path };
	}
	return free;
}

static void forget(pid_t pid)
{
	for (struct task *task = tasks; task < tasks + MOST_TASKS; task++)
		if (task->pid == pid)
			task->pid = 0;
}

static void at_call(struct task *task, const struct tracer *tracer)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, task->pid, sizeof(info), &info) <= 0)
		return;
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		task->number = info.entry.nr;
		memcpy(task->arguments, info.entry.args, sizeof(task->arguments));
		tracer->enter(task);
	} else if (info.op == PTRACE_SYSCALL_INFO_EXIT) {
		tracer->leave(task, info.exit.rval);
	}
}

void tracer_begin(void)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
}

/* A process ends after its threads, and those after whoever traces them has waited. */
static void end_tasks(void)
{
	for (struct task *task = tasks; task < tasks + MOST_TASKS; task++)
		if (task->pid)
			kill(task->pid, SIGKILL);
	for (struct task *task = tasks + MOST_TASKS; task-- > tasks;)
		if (task->pid)
			waitpid(task->pid, NULL, __WALL);
}

bool tracer_run(pid_t program, const struct tracer *tracer, int *ended)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
	                     PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
	int status;

	if (waitpid(program, &status, 0) != program ||
	    ptrace(PTRACE_SETOPTIONS, program, NULL, options))
		fail("ptrace");
	task_of(program)->has_begun = true;
	ptrace(PTRACE_SYSCALL, program, NULL, NULL);
	for (pid_t pid; !tracer->is_full() && (pid = waitpid(-1, &status, __WALL)) > 0;) {
		int signal = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
		if (!signal) {
			if (tracer->reuses_tasks)
				forget(pid);
			if (pid != program)
				continue;
			*ended = status;
			return true;
		}
		struct task *task = task_of(pid);
		if (signal == (SIGTRAP | 0x80)) {
			if (task)
				at_call(task, tracer);
			signal = 0;
		} else if (status >> 16 || (signal == SIGSTOP && task && !task->has_begun) ||
		           (signal == SIGSEGV && task && tracer->fault(task))) {
			signal = 0;
		}
		if (task)
			task->has_begun = true; /* a new task begins with a SIGSTOP that is ours */
		ptrace(PTRACE_SYSCALL, pid, NULL, (long)signal);
	}
	if (!tracer->is_full())
		fail("waitpid");
	end_tasks();
	return false;
}
