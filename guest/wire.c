/* SPDX-License-Identifier: MIT */
/*
 * Lines to the host, sent at once, so that a crash or a panic loses no earlier line; and the ports
 * of the machine that carry them: docs/wire.md.
 */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/io.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

enum { FREEZE = 0x505, WIRE = 0x5e9, FINISH = 0xf4, FW_CFG = 0x510, FW_CFG_DATA = 0x511 };
enum { FW_CFG_DIRECTORY = 0x19 };

bool in_guest, counted;

/*
 * Takes or gives back the right to use ports. A task that keeps the right pays for it in every
 * context switch and fork, and every result would include that.
 */
static void ports(bool open)
{
	static const char sorry[] = "ktax: iopl failed: the kernel needs CONFIG_X86_IOPL_IOPERM\n";

	if (iopl(open ? 3 : 0) && write(STDERR_FILENO, sorry, sizeof(sorry) - 1))
		for (;;)
			pause();
}

void machine_freeze(void)
{
	ports(true);
	standstill();
	ports(false);
}

/*
 * insb() and outsb() of sys/io.h do not tell the compiler that they use memory. KVM reads the port
 * before it writes to memory: if a page is missing or is still shared after a fork, the guest
 * faults, and the bytes are lost. So the pages are written first.
 */
static void read_bytes(void *to, size_t length)
{
	memset(to, 0, length);
	__asm__ volatile("rep insb" : "+D"(to), "+c"(length) : "d"(FW_CFG_DATA) : "memory");
}

static void read_item(uint16_t item, void *to, size_t length)
{
	outw(item, FW_CFG);
	read_bytes(to, length);
}

/* The order is the fw_cfg file opt/ktax/order or opt/ktax/orders; its numbers are big-endian. */
char *machine_order(char *text, size_t size)
{
	struct {
		uint32_t size;
		uint16_t item, reserved;
		char name[56];
	} file;
	uint32_t files;
	char *several = NULL;

	ports(true);
	read_item(FW_CFG_DIRECTORY, &files, sizeof(files));
	for (uint32_t i = 0; i < __builtin_bswap32(files); i++) {
		read_bytes(&file, sizeof(file));
		if (!strcmp(file.name, "opt/ktax/orders"))
			text = several = machine_orders_memory(&size);
		else if (strcmp(file.name, "opt/ktax/order"))
			continue;
		uint32_t length = __builtin_bswap32(file.size);
		read_item(__builtin_bswap16(file.item), text, length < size ? length : size - 1);
		break;
	}
	ports(false);
	return several;
}

static void machine_write(const char *text, size_t length)
{
	ports(true);
	__asm__ volatile("rep outsb" : "+S"(text), "+c"(length) : "d"(WIRE) : "memory");
	ports(false);
}

/* The host stops the machine at the first port. Without a host, the second port ends it. */
void machine_stop(void)
{
	ports(true);
	outb(1, FREEZE);
	outb(21, FINISH);
	for (;;)
		pause();
}

/*
 * Of all threads and processes of a workload one says why it failed, and nothing may follow. They
 * share this. In a guest only threads do, as a mapping would be one more to copy in each fork; of
 * its processes one makes a directory.
 */
static const char claimed[] = "/failed", done[] = "/failed/said";
enum { NOBODY, SPEAKS, HAS_SPOKEN };
static atomic_int own, *failure = &own;
static atomic_int writers; /* threads of this process that write a line */

void wire_write(const char *text, size_t length)
{
	if (in_guest) {
		machine_write(text, length);
		return;
	}
	while (length) {
		ssize_t n = write(STDOUT_FILENO, text, length);
		if (n < 0) { /* stdout is closed */
			before_end();
			_exit(1);
		}
		text += n;
		length -= n;
	}
}

void say(const char *const *words)
{
	char line[1024];
	size_t used = 0;

	for (; *words; words++)
		for (const char *c = *words; *c && used < sizeof(line) - 1; c++)
			line[used++] = *c;
	line[used++] = '\n';
	atomic_fetch_add(&writers, 1);
	wire_write(line, used);
	atomic_fetch_sub(&writers, 1);
}

void wire_share(void *shared)
{
	failure = shared;
}

bool wire_failed(void)
{
	return atomic_load(failure) || (in_guest && !access(claimed, F_OK));
}

void wire_forget(void)
{
	rmdir(done);
	rmdir(claimed);
}

/* Waits for somebody else, who may have been killed: a second is long enough. */
static void wait_for(bool (*happened)(void))
{
	const struct timespec millisecond = { .tv_nsec = 1000000 };

	for (int i = 0; i < 1000 && !happened(); i++)
		nanosleep(&millisecond, NULL);
}

static bool has_spoken(void)
{
	return atomic_load(failure) == HAS_SPOKEN || (in_guest && !access(done, F_OK));
}

static bool nobody_writes(void)
{
	return !atomic_load(&writers);
}

/* Returns in one thread of this process, which ends it. */
static void be_the_last(void)
{
	static atomic_flag ending = ATOMIC_FLAG_INIT;

	while (atomic_flag_test_and_set(&ending))
		pause();
}

static bool is_first(void)
{
	int nobody = NOBODY;

	return atomic_compare_exchange_strong(failure, &nobody, SPEAKS) &&
	       !(in_guest && mkdir(claimed, 0700) && errno == EEXIST);
}

void say_number(const char *before, uint64_t value)
{
	char digits[21];
	char *at = digits + sizeof(digits) - 1;

	*at = 0;
	do
		*--at = '0' + value % 10;
	while (value /= 10);
	SAY(before, at);
}

static void say_entry(const char *kind, const char *name, uint64_t number)
{
	char before[16 + NAME_MAX_LENGTH];

	if (wire_failed()) {
		be_the_last();
		wait_for(has_spoken);
		finish(1);
	}
	strcpy(before, kind);
	strncat(before, name, NAME_MAX_LENGTH);
	strcat(before, " ");
	say_number(before, number);
}

void sig(const char *name, uint64_t number)
{
	say_entry("sig ", name, number);
}

void value(const char *name, uint64_t number)
{
	say_entry("value ", name, number);
}

void fail(const char *what)
{
	const char *why = errno ? strerror(errno) : "not the result it must have";

	be_the_last();
	if (is_first()) {
		wait_for(nobody_writes);
		SAY("fail ", what, ": ", why);
		atomic_store(failure, HAS_SPOKEN);
		if (in_guest)
			mkdir(done, 0700);
	}
	wait_for(has_spoken);
	finish(1);
}

void finish(int status)
{
	before_end();
	if (in_guest && counted)
		machine_stop();
	_exit(status);
}
