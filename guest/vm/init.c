/* SPDX-License-Identifier: MIT */
/*
 * The first process of a guest on KVM: runs one program of /ktax-guest as on any machine, between
 * two marks that the monitor sees, and goes off. Its arguments are those after `run` on the boot
 * line: `-- phase=N run NAME ops=N PARAM=N ...`; without any there is nothing between the marks.
 * The phase is a delay before the first mark: it moves the program against the timer tick.
 */
#include <fcntl.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MARK = 0x5ea };

static void mark(unsigned char which)
{
	iopl(3);
	outb(which, MARK);
	iopl(0);
}

static void delay(unsigned long iterations)
{
	while (iterations--)
		__asm__ volatile("");
}

/* Its output is kept for later: each byte of a serial port is an exit. */
static int run(char **argv)
{
	static char *const environment[] = { "KTAX_HELLO=/ktax-hello", NULL };
	int said = open("/tmp/said", O_RDWR | O_CREAT | O_TRUNC, 0600);
	pid_t child = fork();

	if (child == 0) {
		dup2(said, STDOUT_FILENO);
		execve("/ktax-guest", argv, environment);
		_exit(127);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
	return said;
}

static void print(int said)
{
	static char text[65536];
	ssize_t length = pread(said, text, sizeof(text), 0), done = 0, more = 1;

	while (done < length && more > 0) {
		more = write(STDOUT_FILENO, text + done, length - done);
		done += more;
	}
}

static void loopback(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	ioctl(fd, SIOCSIFFLAGS, &lo);
	close(fd);
}

int main(int argc, char **argv)
{
	static const char *const systems[][2] = {
		{ "devtmpfs", "/dev" }, { "proc", "/proc" }, { "sysfs", "/sys" }, { "tmpfs", "/tmp" },
	};
	int at = 1, said = -1;

	for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++)
		mount(systems[i][0], systems[i][1], systems[i][0], 0, NULL);
	loopback();
	/* Before it stand words of the boot line that the kernel did not know. */
	for (; at < argc && strcmp(argv[at], "run"); at++)
		if (!strncmp(argv[at], "phase=", 6))
			delay(strtoul(argv[at] + 6, NULL, 10));
	mark(1);
	if (at + 1 < argc)
		said = run(argv + at);
	mark(2);
	print(said);
	return reboot(RB_POWER_OFF);
}
