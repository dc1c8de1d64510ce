/* SPDX-License-Identifier: MIT */
/*
 * A program under ptrace: which system calls it makes and what they give it, or which files it
 * names.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
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
#include <unistd.h>

#include "program.h"
#include "tools.h"

enum { MOST_TASKS = 512 };

/* A thread or a process of the traced program. */
struct task {
	pid_t pid;
	bool has_begun;
	uint64_t number, arguments[6]; /* of the system call that it is in */
	char *path;                    /* that the call names; kept for the next task at this place */
};

struct tracer {
	void (*enter)(struct task *task);
	void (*leave)(struct task *task, int64_t result);
	bool (*fault)(struct task *task); /* SIGSEGV: true if the program is not to see it */
	bool (*is_full)(void);            /* whether to stop the run early */
	bool reuses_tasks; /* the place of a task that has ended is used again */
};

static struct task tasks[MOST_TASKS];

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

static void call_stopped(struct task *task, const struct tracer *tracer)
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

void trace_begin(void)
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

static bool run(pid_t program, const struct tracer *tracer, int *ended)
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
				call_stopped(task, tracer);
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

/*
 * A system call that gives a program something besides the returned value: which argument points
 * to the data, and how much it is; 0: as much as the call returns.
 */
static const struct output {
	int number, argument;
	size_t size;
} outputs[] = {
	{ SYS_read, 1, 0 },
	{ SYS_pread64, 1, 0 },
	{ SYS_recvfrom, 1, 0 },
	{ SYS_getrandom, 0, 0 },
	{ SYS_getdents64, 1, 0 },
	{ SYS_readlink, 1, 0 },
	{ SYS_readlinkat, 2, 0 },
	{ SYS_clock_gettime, 1, sizeof(struct timespec) },
	{ SYS_gettimeofday, 0, sizeof(struct timeval) },
	{ SYS_times, 0, sizeof(struct tms) },
	{ SYS_getrusage, 1, sizeof(struct rusage) },
	{ SYS_stat, 1, sizeof(struct stat) },
	{ SYS_lstat, 1, sizeof(struct stat) },
	{ SYS_fstat, 1, sizeof(struct stat) },
	{ SYS_newfstatat, 2, sizeof(struct stat) },
	{ SYS_statx, 4, 256 },
	{ SYS_sysinfo, 0, sizeof(struct sysinfo) },
	{ SYS_uname, 0, sizeof(struct utsname) },
};

/* NULL: only the returned value counts. */
static const struct output *output_of(uint64_t number)
{
	for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++)
		if (outputs[i].number == (int)number)
			return &outputs[i];
	return NULL;
}

/*
 * Each system call, and each reading of the time-stamp counter, which has a number of its own, is
 * sent as `call TASK NUMBER HASH`, until there are MOST_CALLS: each is two stops, 0.1 ms under TCG,
 * and at most 24 bytes of the answer.
 */
enum { MOST_CALLS = 1 << 15, CALLS = 512, TSC = CALLS - 1 };

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

	snprintf(line, sizeof(line), "call %d %d %u", (int)(task - tasks), (int)(number % CALLS),
	         (uint32_t)hash_bytes(HASH_START, &result, sizeof(result)));
	SAY(line);
	calls++;
}

static void calls_enter(struct task *task)
{
	if (task->number == SYS_exit || task->number == SYS_exit_group)
		record(task, task->number, task->arguments[0]); /* it does not return */
}

static void calls_leave(struct task *task, int64_t result)
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

static bool calls_are_full(void)
{
	return calls >= MOST_CALLS;
}

void trace_calls_begin(void)
{
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	trace_begin();
}

bool trace_calls(pid_t program, int *ended)
{
	static const struct tracer tracer = {
		.enter = calls_enter, .leave = calls_leave, .fault = is_rdtsc, .is_full = calls_are_full,
	};

	return run(program, &tracer, ended);
}

/*
 * Each path that a system call found, or did not find, is sent once. A path is absolute; in it, a
 * byte that is not printable ASCII is %XX.
 */
enum { LONGEST = 1 << 12, SAID = 1 << 17, MOST_SAID = 1 << 16, NO_DIRECTORY = -1 };

/*
 * Calls that name a file that must be there, or that they make: which arguments are the directory
 * and the path.
 */
static const struct naming {
	uint64_t number;
	int directory, path;
} namings[] = {
	{ SYS_open, NO_DIRECTORY, 0 },     { SYS_openat, 0, 1 },
	{ SYS_openat2, 0, 1 },             { SYS_stat, NO_DIRECTORY, 0 },
	{ SYS_lstat, NO_DIRECTORY, 0 },    { SYS_newfstatat, 0, 1 },
	{ SYS_statx, 0, 1 },               { SYS_access, NO_DIRECTORY, 0 },
	{ SYS_faccessat, 0, 1 },           { SYS_faccessat2, 0, 1 },
	{ SYS_readlink, NO_DIRECTORY, 0 }, { SYS_readlinkat, 0, 1 },
	{ SYS_execve, NO_DIRECTORY, 0 },   { SYS_execveat, 0, 1 },
	{ SYS_chdir, NO_DIRECTORY, 0 },    { SYS_statfs, NO_DIRECTORY, 0 },
	{ SYS_truncate, NO_DIRECTORY, 0 }, { SYS_chroot, NO_DIRECTORY, 0 },
	{ SYS_mkdir, NO_DIRECTORY, 0 },    { SYS_mkdirat, 0, 1 },
	{ SYS_mknod, NO_DIRECTORY, 0 },    { SYS_mknodat, 0, 1 },
	{ SYS_link, NO_DIRECTORY, 1 },     { SYS_linkat, 2, 3 },
	{ SYS_symlink, NO_DIRECTORY, 1 },  { SYS_symlinkat, 1, 2 },
	{ SYS_rename, NO_DIRECTORY, 1 },   { SYS_renameat2, 2, 3 },
};

static const char *program_root; /* paths are sent without it */
static uint64_t *said; /* hashes of the lines, in a table with open addressing */
static unsigned lines;

static const struct naming *naming_of(uint64_t number)
{
	for (size_t i = 0; i < sizeof(namings) / sizeof(namings[0]); i++)
		if (namings[i].number == number)
			return &namings[i];
	return NULL;
}

/* Reads a string of the program; a page that follows may not be there. */
static bool read_text(pid_t pid, uint64_t address, char *text)
{
	for (size_t length = 0; length < LONGEST;) {
		size_t more = PAGE - (address + length) % PAGE;
		if (more > LONGEST - length)
			more = LONGEST - length;
		struct iovec here = { text + length, more };
		struct iovec there = { (void *)(address + length), more };
		if (process_vm_readv(pid, &here, 1, &there, 1, 0) != (ssize_t)more)
			return false;
		if (memchr(text + length, 0, more))
			return true;
		length += more;
	}
	return false;
}

/* Puts the directory that a relative path begins in before it. */
static bool make_absolute(const struct task *task, int directory, char *path)
{
	char link[64], base[LONGEST];

	if (directory == NO_DIRECTORY || (int)task->arguments[directory] == AT_FDCWD)
		snprintf(link, sizeof(link), "/proc/%d/cwd", task->pid);
	else
		snprintf(link, sizeof(link), "/proc/%d/fd/%d", task->pid,
		         (int)task->arguments[directory]);
	ssize_t length = readlink(link, base, sizeof(base) - 1);
	if (length <= 0 || base[0] != '/')
		return false;
	base[length] = 0;
	/* The directory is as this process sees it, and the program's root may be below. */
	size_t root = strlen(program_root);
	const char *from = base;
	if (!strncmp(base, program_root, root) && (!base[root] || base[root] == '/'))
		from += root;
	size_t before = strlen(from), own = strlen(path);
	if (before + own + 2 > LONGEST)
		return false;
	memmove(path + before + 1, path, own + 1);
	memcpy(path, from, before);
	path[before] = '/';
	return true;
}

static void files_enter(struct task *task)
{
	const struct naming *naming = naming_of(task->number);

	if (!task->path)
		task->path = calloc(1, LONGEST);
	if (!task->path)
		return;
	task->path[0] = 0;
	if (!naming)
		return;
	bool is_named = read_text(task->pid, task->arguments[naming->path], task->path);
	/* An empty path is the descriptor itself. */
	if (!is_named || !task->path[0] ||
	    (task->path[0] != '/' && !make_absolute(task, naming->directory, task->path)))
		task->path[0] = 0;
}

static bool is_new(uint64_t hash)
{
	size_t at = hash % SAID;

	for (; said[at]; at = (at + 1) % SAID)
		if (said[at] == hash)
			return false;
	said[at] = hash;
	return true;
}

static void say_path(const char *what, const char *path)
{
	char line[PAGE];
	size_t used = (size_t)snprintf(line, sizeof(line), "%s ", what);

	if (!is_new(hash_bytes(hash_bytes(HASH_START, what, strlen(what)), path, strlen(path)) | 1))
		return;
	for (; *path && used < sizeof(line) - 8; path++) {
		bool is_plain = *path > ' ' && *path < 0x7f && *path != '%';
		used += (size_t)snprintf(line + used, 8, is_plain ? "%c" : "%%%02x",
		                         (unsigned char)*path);
	}
	if (*path)
		return; /* no line is so long */
	line[used++] = '\n';
	wire_write(line, used);
	lines++;
}

static void files_leave(struct task *task, int64_t result)
{
	if (!task->path || !task->path[0])
		return;
	if (result == -ENOENT)
		say_path("missing", task->path);
	else if (result >= 0 || result == -EEXIST)
		say_path(task->number == SYS_execve || task->number == SYS_execveat ? "executed" :
		                                                                      "opened",
		         task->path);
}

static bool files_are_full(void)
{
	return lines >= MOST_SAID;
}

static bool no_fault(struct task *task)
{
	(void)task;
	return false;
}

bool trace_files(pid_t program, const char *root, int *ended)
{
	static const struct tracer tracer = {
		.enter = files_enter, .leave = files_leave, .fault = no_fault, .is_full = files_are_full,
		.reuses_tasks = true,
	};

	program_root = root;
	if (!said)
		said = calloc(SAID, sizeof(*said));
	if (!said)
		fail("calloc");
	return run(program, &tracer, ended);
}
