/* SPDX-License-Identifier: MIT */
/* Guests that no one should trust, for the tests of the host. They do nothing outside a guest. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools.h"

static void guest_only(void)
{
	errno = EPERM;
	if (!in_guest) /* bad-panic would take the machine of whoever tries it */
		fail("misbehave");
}

static void bad_garbage(const struct order *o)
{
	static char junk[4096];
	static const char title[] = "\33]0;ktax was here\7\33[2J\33[31m\r\n";
	uint64_t x = o->ops;

	guest_only();
	for (size_t i = 0; i < sizeof(junk); i++) {
		x = x * 6364136223846793005ul + 1442695040888963407ul;
		junk[i] = x >> 56;
	}
	memcpy(junk + 1000, title, sizeof(title)); /* with its NUL */
	wire_write(junk, sizeof(junk));
}
WORKLOAD("bad-garbage", bad_garbage);

static void bad_longline(const struct order *o)
{
	static char text[8192];

	(void)o;
	guest_only();
	memset(text, 'a', sizeof(text));
	for (int i = 0; i < 10 << 20; i += sizeof(text))
		wire_write(text, sizeof(text));
}
WORKLOAD("bad-longline", bad_longline);

static void bad_silent(const struct order *o)
{
	(void)o;
	guest_only();
	finish(0);
}
WORKLOAD("bad-silent", bad_silent);

static void bad_hang(const struct order *o)
{
	(void)o;
	guest_only();
	for (;;)
		__asm__ volatile("pause");
}
WORKLOAD("bad-hang", bad_hang);

static atomic_int ready[2];

/* Each says that it is ready when the other has. */
static void wait_for_the_other(unsigned member)
{
	team_pin(member);
	while (!atomic_load(&ready[!member]))
		__asm__ volatile("pause");
	atomic_store(&ready[member], 1);
}

static void bad_deadlock(const struct order *o)
{
	(void)o;
	guest_only();
	region_begin();
	team_start(2, wait_for_the_other);
	team_join();
	region_end();
}
WORKLOAD("bad-deadlock", bad_deadlock);

static void bad_halt(const struct order *o)
{
	(void)o;
	guest_only();
	region_begin();
	for (;;)
		pause(); /* no timer of this process is left */
}
WORKLOAD("bad-halt", bad_halt);

static void bad_sleep(const struct order *o)
{
	struct timespec left = { .tv_sec = 3600 };

	(void)o;
	guest_only();
	region_begin(); /* an hour in which nothing is executed */
	while (nanosleep(&left, &left))
		;
	region_end();
}
WORKLOAD("bad-sleep", bad_sleep);

static void bad_crash(const struct order *o)
{
	(void)o;
	guest_only();
	close(open(scratch(), O_WRONLY | O_CREAT | O_EXCL, 0600));
	semget(scratch_keys(3), 1, IPC_CREAT | IPC_EXCL | 0600);
	while (!child()) /* it outlives who made it */
		pause();
	abort();
}
WORKLOAD("bad-crash", bad_crash);

static void bad_panic(const struct order *o)
{
	(void)o;
	guest_only();
	errno = ENOSYS;
	if (write(open("/proc/sysrq-trigger", O_WRONLY), "c", 1))
		fail("/proc/sysrq-trigger");
}
WORKLOAD("bad-panic", bad_panic);

static void bad_escape(const struct order *o)
{
	(void)o;
	guest_only();
	errno = EINVAL;
	fail("\33]0;ktax was here\7\33[2J\33[31m<script>alert(1)</script>");
}
WORKLOAD("bad-escape", bad_escape);

static atomic_int *go;

static void *fail_together(void *unused)
{
	while (!atomic_load(go))
		sched_yield();
	errno = 0;
	fail("together");
	return unused;
}

/* So many processes with so many threads each fail at once, while the first one speaks. */
static void bad_together(const struct order *o)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_ANONYMOUS;
	const uint64_t processes = param(o, "processes", 0), threads = param(o, "threads", 0);
	char name[] = "fact-a";
	bool is_first = true;

	go = mmap(NULL, sizeof(*go), prot, flags, -1, 0);
	if (go == MAP_FAILED)
		fail("mmap");
	for (uint64_t i = 0; i < processes && is_first; i++)
		is_first = worker() != 0;
	for (uint64_t i = 0; i < threads; i++)
		team_thread(fail_together, NULL);
	if (!is_first)
		fail_together(NULL);
	atomic_store(go, 1);
	region_begin();
	region_end();
	for (char *last = name + sizeof(name) - 2; *last < 'z'; ++*last)
		sig(name, 0);
	while (wait(NULL) > 0)
		;
	while (threads)
		pause(); /* until one that fails ends this process */
	sig(name, 0);
}
WORKLOAD("bad-together", bad_together);

static void bad_sig(const struct order *o)
{
	/* A Region, so that nothing is wrong with it but the other work. */
	region_begin();
	region_end();
	sig("value", param(o, "value", 0) + boot_param("value"));
}
WORKLOAD("bad-sig", bad_sig);
