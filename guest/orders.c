/* SPDX-License-Identifier: MIT */
/*
 * Runs several orders in one boot, for timing: each in a fresh process of this program, one at a
 * time, as natively. However one of them ends, the next one finds nothing of it.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

static const char mark[] = "order:";

bool orders_is_one(int argc, char **argv)
{
	return argc == 2 && !strcmp(argv[0], mark) && getppid() == 1;
}

/* Not in this program's data: every fork of a workload would copy it. */
char *machine_orders_memory(size_t *size)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;

	*size = 64 << 10;
	char *text = mmap(NULL, *size, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (text == MAP_FAILED)
		fail("mmap");
	return text;
}

/* Returns the first order, including its line `end`, and moves `text` behind it. */
static char *cut(char **text)
{
	static const char last[] = "\nend\n";
	char *order = *text, *end = strstr(order, last);

	*text = order + strlen(order);
	if (end) {
		*text = end + sizeof(last) - 1;
		(*text)[-1] = 0;
	}
	return order;
}

static __attribute__((noreturn)) void become(char *order)
{
	setpgid(0, 0);
	execve("/init", (char *[]){ (char *)mark, order, NULL }, (char *[]){ NULL });
	fail("execve");
}

/* Orphans become children of this process, so it waits for them as well. */
static int wait_for(pid_t order)
{
	int status = 0;
	pid_t ended;

	do
		ended = wait(&status);
	while (ended > 0 && ended != order);
	return status;
}

/* An order that ended well has cleaned up, except for orphaned processes. */
static void sweep(bool well)
{
	kill(-1, SIGKILL); /* all but this process */
	while (wait(NULL) > 0)
		;
	if (!well)
		scratch_sweep();
	wire_forget();
	settings_restore();
}

void orders_run(char *text)
{
	counted = false;
	settings_note();
	while (*text) {
		char *order = cut(&text);
		SAY("ktax 1");
		pid_t pid = fork();
		if (!pid)
			become(order);
		int status = pid > 0 ? wait_for(pid) : 0;
		if (pid < 0)
			SAY("fail fork: no process for it");
		else if (WIFSIGNALED(status) && !wire_failed())
			say_number("fail ended by signal ", WTERMSIG(status));
		sweep(pid > 0 && !status);
	}
	machine_stop();
}
