/* SPDX-License-Identifier: MIT */
/* Guests that no one should trust, for the tests of the host. They do nothing outside a guest. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sem.h>
#include <time.h>
#include <unistd.h>

#include "ktax.h"

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

static void bad_sig(const struct order *o)
{
	/* A Region, so that nothing is wrong with it but the other work. */
	region_begin();
	region_end();
	sig("value", param(o, "value", 0) + boot_param("value"));
}
WORKLOAD("bad-sig", bad_sig);
