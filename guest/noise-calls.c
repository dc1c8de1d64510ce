/* SPDX-License-Identifier: MIT */
/* The system calls that give a program something; for noise.c. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <time.h>

#include "noise-calls.h"

static const struct output outputs[] = {
	{ SYS_read, "read", 1, 0 },
	{ SYS_pread64, "pread64", 1, 0 },
	{ SYS_getrandom, "getrandom", 0, 0 },
	{ SYS_getdents64, "getdents64", 1, 0 },
	{ SYS_readlink, "readlink", 1, 0 },
	{ SYS_readlinkat, "readlinkat", 2, 0 },
	{ SYS_clock_gettime, "clock-gettime", 1, sizeof(struct timespec) },
	{ SYS_gettimeofday, "gettimeofday", 0, sizeof(struct timeval) },
	{ SYS_times, "times", 0, sizeof(struct tms) },
	{ SYS_getrusage, "getrusage", 1, sizeof(struct rusage) },
	{ SYS_stat, "stat", 1, sizeof(struct stat) },
	{ SYS_lstat, "lstat", 1, sizeof(struct stat) },
	{ SYS_fstat, "fstat", 1, sizeof(struct stat) },
	{ SYS_newfstatat, "newfstatat", 2, sizeof(struct stat) },
	{ SYS_statx, "statx", 4, 256 },
	{ SYS_sysinfo, "sysinfo", 0, sizeof(struct sysinfo) },
	{ SYS_uname, "uname", 0, sizeof(struct utsname) },
	/* What returns something of its own. */
	{ SYS_time, "time", NONE, 0 },
	{ SYS_mmap, "mmap", NONE, 0 },
	{ SYS_brk, "brk", NONE, 0 },
	{ SYS_mremap, "mremap", NONE, 0 },
	{ SYS_getpid, "getpid", ITS_ID, 0 },
	{ SYS_getppid, "getppid", ITS_ID, 0 },
	{ SYS_gettid, "gettid", ITS_ID, 0 },
	{ SYS_fork, "fork", ITS_ID, 0 },
	{ SYS_vfork, "vfork", ITS_ID, 0 },
	{ SYS_clone, "clone", ITS_ID, 0 },
	{ SYS_clone3, "clone3", ITS_ID, 0 },
	{ SYS_wait4, "wait4", ITS_ID, 0 },
	{ SYS_poll, "poll", NONE, 0 },
	{ SYS_epoll_wait, "epoll-wait", NONE, 0 },
	{ SYS_futex, "futex", NONE, 0 },
	{ SYS_set_tid_address, "set-tid-address", ITS_ID, 0 },
	{ TSC, "rdtsc", NONE, 0 },
};

const struct output *output_of(uint64_t number)
{
	for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++)
		if (outputs[i].number == (int)number)
			return &outputs[i];
	return NULL;
}
