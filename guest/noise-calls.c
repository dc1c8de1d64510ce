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

const struct output *output_of(uint64_t number)
{
	for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++)
		if (outputs[i].number == (int)number)
			return &outputs[i];
	return NULL;
}
