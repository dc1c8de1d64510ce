/* SPDX-License-Identifier: MIT */
/* Before the Snapshot: file systems, loopback, CPUs, and which kernel this is. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <linux/random.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "guest.h"

/*
 * A generator of random numbers without a seed works another, slower way, in the kernel and for
 * programs. A boot line or a CPU model without RDRAND must not look like such a cost, so a
 * generator that the kernel did not seed is seeded here.
 */
static void seed(void)
{
	struct {
		struct rand_pool_info info;
		char bytes[64];
	} seed = { .info = { .entropy_count = 8 * sizeof(seed.bytes), .buf_size = sizeof(seed.bytes) } };
	int fd;

	if (getrandom(NULL, 0, GRND_NONBLOCK) == 0)
		return;
	fd = open("/dev/random", O_RDWR);
	ioctl(fd, RNDADDENTROPY, &seed);
	close(fd);
}

/* Nothing is checked here: a workload reports what it needs and does not find. */
void boot(void)
{
	static const char *const systems[][2] = {
		{ "devtmpfs", "/dev" }, { "proc", "/proc" }, { "sysfs", "/sys" }, { "tmpfs", "/tmp" },
	};
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++) {
		mkdir(systems[i][1], 0755);
		mount(systems[i][0], systems[i][1], systems[i][0], 0, NULL);
	}
	ioctl(fd, SIOCSIFFLAGS, &lo);
	close(fd);
	seed();
}

/* Writes the GNU build-id of the notes as hex digits; false where there is none. */
static bool build_id(char *hex, size_t size, const char *notes, size_t length)
{
	while (length >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		memcpy(&note, notes, sizeof(note));
		size_t name = sizeof(note), value = name + ((note.n_namesz + 3ul) & ~3ul);
		size_t next = value + ((note.n_descsz + 3ul) & ~3ul);
		if (next > length)
			return false;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(notes + name, "GNU", 4) && 2ul * note.n_descsz < size) {
			for (size_t i = 0; i < note.n_descsz; i++) {
				unsigned char byte = notes[value + i];
				*hex++ = "0123456789abcdef"[byte >> 4];
				*hex++ = "0123456789abcdef"[byte & 15];
			}
			*hex = 0;
			return true;
		}
		notes += next;
		length -= next;
	}
	return false;
}

/*
 * Plants what the host must notice: with ktax.never=1 this program never reports and keeps the CPU
 * busy, with 2 it never reports and sleeps, and with 3 the machine is never idle.
 */
static void never(void)
{
	uint64_t how = boot_param("never");

	if (how == 3 && !child()) {
		prctl(PR_SET_NAME, "never-idle");
		for (;;)
			__asm__ volatile("");
	}
	if (how == 1)
		for (;;)
			__asm__ volatile("pause");
	while (how == 2)
		sleep(3600);
}

/*
 * Several CPUs whose instructions are counted. The host needs a moment to stop a machine, in which
 * the other CPUs would go on; so before the Snapshot they are stopped, and started again behind it.
 */
enum { MOST_CPUS = 32 };

/* False: there is no such CPU, or it cannot be stopped. */
static bool set_online(int cpu, const char *online)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, online, 1) == 1;
	if (fd >= 0)
		close(fd);
	return done;
}

/* Returns how many were set. */
static int set_all(const char *online)
{
	int count = 0;

	for (int cpu = 1; cpu < MOST_CPUS; cpu++)
		count += set_online(cpu, online);
	return count;
}

static void nobody(const char *task)
{
	(void)task;
}

static void cpus_stop(void)
{
	if (boot_param("cpus"))
		set_all("0");
}

/*
 * When the host has stopped the machine, its clock may have jumped, and so may the place in the
 * first CPU's slice; the marker begins all slices anew. New CPUs have threads of their own, which
 * are not the workload's.
 */
void cpus_start(void)
{
	if (!boot_param("cpus"))
		return;
	KTAX_MARK(0x4b540003);
	if (set_all("1"))
		quiet(nobody);
}

static void busy(const char *task)
{
	SAY("busy ", task);
}

void hello(void)
{
	static char notes[4096], hex[129];
	struct utsname name;
	int fd = open("/sys/kernel/notes", O_RDONLY);
	ssize_t length = read(fd, notes, sizeof(notes));

	close(fd);
	uname(&name);
	never();
	SAY("release ", name.release);
	disk();
	hooks_setup();
	disk_settle();
	if (length > 0 && build_id(hex, sizeof(hex), notes, length))
		SAY("build-id ", hex);
	if (getrandom(NULL, 0, GRND_NONBLOCK) != 0)
		SAY("unseeded");
	cpus_stop();
	quiet(busy);
	SAY("ready");
}

/* Not a measurement: sends the plugin the addresses of the kernel's functions, or variables. */
enum { TYPE = 17 }; /* "ffffffff81000000 T _stext": where the type stands */

/* Leaves the lines of functions, or of all else, moved together, and returns their length. */
static size_t keep_kind(bool variables, char *text, const char *end)
{
	char *to = text, *next;

	for (const char *line = text; line < end; line = next) {
		next = (char *)memchr(line, '\n', end - line) + 1;
		if (next - line > TYPE && !strchr("tTwW", line[TYPE]) == variables) {
			memmove(to, line, next - line);
			to += next - line;
		}
	}
	return to - text;
}

/* Each byte costs the host a system call: data, half of many tables, is sent if asked for. */
static void symbols_run(const struct order *o)
{
	static char text[65536];
	int fd = open("/proc/kallsyms", O_RDONLY);
	bool variables = param(o, "variables", 0);
	size_t rest = 0; /* of a line that is not whole yet */
	ssize_t n;

	if (fd < 0)
		fail("open /proc/kallsyms");
	while ((n = read(fd, text + rest, sizeof(text) - rest)) > 0) {
		const char *last = memrchr(text, '\n', rest + n);
		size_t whole = last ? last + 1 - text : 0;

		rest += n - whole;
		wire_write(text, keep_kind(variables, text, text + whole));
		memmove(text, text + whole, rest);
	}
	if (n < 0 || rest)
		fail("read /proc/kallsyms");
}

WORKLOAD("symbols", symbols_run);
