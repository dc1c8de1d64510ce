/* SPDX-License-Identifier: MIT */
/* Before the Snapshot: file systems, loopback, and the hello that says which kernel this is. */
#include <elf.h>
#include <fcntl.h>
#include <linux/random.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "freeze.h"
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

/* The kernel passes parameters that it does not know to init. Most of them are misspelled. */
void ignored(const char *parameter)
{
	SAY("ignored ", parameter);
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
