/* SPDX-License-Identifier: MIT */
/*
 * What a program is given: it runs under ptrace, and each system call, and each reading of the
 * time-stamp counter, is said as `call TASK NUMBER HASH`. The run ends after MOST_CALLS.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>

#include "hash.h"
#include "noise-calls.h"
#include "noise.h"
#include "tracer.h"

/* Each call is two stops, 0.1 ms under TCG, and at most 24 bytes of the answer. */
enum { MOST_CALLS = 1 << 15 };

static unsigned calls;

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

	snprintf(line, sizeof(line), "call %d %d %u", (int)tracer_index(task), (int)(number % CALLS),
	         (uint32_t)hash_bytes(HASH_START, &result, sizeof(result)));
	SAY(line);
	calls++;
}

static void enter(struct task *task)
{
	if (task->number == SYS_exit || task->number == SYS_exit_group)
		record(task, task->number, task->arguments[0]); /* it does not return */
}

static void leave(struct task *task, int64_t result)
{
	record(task, task->number, with_data(task, (uint64_t)result));
}

/* Reading the time-stamp counter is a fault, also in the vDSO: here it is done for the program. */
static bool is_rdtsc(struct task *task)
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

static bool is_full(void)
{
	return calls >= MOST_CALLS;
}

void noise_begin(void)
{
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	tracer_begin();
}

bool noise_run(pid_t program, int *ended)
{
	static const struct tracer tracer = {
		.enter = enter, .leave = leave, .fault = is_rdtsc, .is_full = is_full,
	};

	return tracer_run(program, &tracer, ended);
}
