/* SPDX-License-Identifier: MIT */
/*
 * A job of small questions. Users and groups are looked up in files of our own, by the calls of
 * getpwnam() and its like; what never enters the kernel (getenv, ctermid) is left out.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "jobs.h"

static void make(const char *path, const char *text)
{
	ssize_t length = strlen(text);
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);

	if (fd < 0 || write(fd, text, length) != length || close(fd))
		fail(path);
}

void misc_prepare(void)
{
	make("passwd", "root:x:0:0:root:/root:/bin/sh\n"
		       "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
		       "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n");
	make("group", "root:x:0:\ndaemon:x:1:\nnogroup:x:65534:\n");
}

/* Finds root in the file; as there is one open anyway, asks whether it is a terminal. */
static bool root_is_in(const char *path)
{
	static char text[PAGE];
	struct termios t;
	struct stat s;
	long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || syscall(SYS_fstat, fd, &s) ||
	    syscall(SYS_read, fd, text, sizeof(text)) != s.st_size || strncmp(text, "root:", 5))
		return false;
	return syscall(SYS_ioctl, fd, TCGETS, &t) && !syscall(SYS_close, fd);
}

const char *misc_rtns_1(void)
{
	static const int plain[] = { SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid,
				     SYS_getpid, SYS_getpgrp, SYS_getppid };
	static char text[PAGE];
	struct timespec clock;
	struct utsname name;
	struct tms times;

	for (unsigned i = 0; i < 10; i++) {
		for (size_t p = 0; p < sizeof(plain) / sizeof(plain[0]); p++)
			if (syscall(plain[p]) < 0)
				return "get...";
		if (syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &clock))
			return "clock";
		if (syscall(SYS_getcwd, text, sizeof(text)) <= 0)
			return "getcwd";
		if (syscall(SYS_getgroups, 0, NULL) < 0)
			return "getgroups";
		if (syscall(SYS_times, &times) < 0)
			return "times";
		if (syscall(SYS_uname, &name))
			return "uname";
		if (!root_is_in("passwd") || !root_is_in("passwd") || !root_is_in("group"))
			return "passwd";
		++*job_done;
	}
	return NULL;
}
