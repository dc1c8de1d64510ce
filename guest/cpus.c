/* SPDX-License-Identifier: MIT */
/*
 * Several CPUs whose instructions are counted. The host needs a moment to stop a machine, in which
 * the other CPUs would go on; so before the Snapshot they are stopped, and started again behind it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "freeze.h"
#include "guest.h"

enum { MOST_CPUS = 32 };

/* False: there is no such CPU, or it cannot be stopped. */
static bool set(int cpu, const char *online)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, online, 1) == 1;
	if (fd >= 0)
		close(fd);
	return done;
}

static int set_all(const char *online)
{
	int count = 0;

	for (int cpu = 1; cpu < MOST_CPUS; cpu++)
		count += set(cpu, online);
	return count;
}

static void nobody(const char *task)
{
	(void)task;
}

void cpus_stop(void)
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
