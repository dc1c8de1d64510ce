/* SPDX-License-Identifier: MIT */
/*
 * work FILE CHILDREN PAGES SLEEPS MOVES: each child touches PAGES new pages, sleeps SLEEPS times,
 * goes to another CPU MOVES times, and works for 20 ms of CPU time. FILE says what getrusage(2) saw
 * of the children until then: minor faults, major faults, context switches.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void move(int moves)
{
	cpu_set_t may, one;
	int cpus[2], found = 0;

	sched_getaffinity(0, sizeof(may), &may);
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &may))
			cpus[found++] = cpu;
	for (int i = 0; i < moves && found == 2; i++) {
		CPU_ZERO(&one);
		CPU_SET(cpus[i % 2], &one);
		sched_setaffinity(0, sizeof(one), &one);
	}
}

static struct rusage work(long pages, int sleeps, int moves)
{
	long size = sysconf(_SC_PAGESIZE);
	struct timespec shortest = { .tv_nsec = 1 };
	struct rusage seen;
	char *area = mmap(NULL, pages * size + 1, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(area, pages * size + 1, MADV_NOHUGEPAGE);
	for (long page = 0; page < pages; page++)
		*(volatile char *)(area + page * size) = 1;
	for (int i = 0; i < sleeps; i++)
		nanosleep(&shortest, NULL);
	move(moves);
	for (long long start = cpu_ns(); cpu_ns() - start < 20000000;)
		;
	getrusage(RUSAGE_SELF, &seen);
	return seen;
}

int main(int count, char **words)
{
	int children = count == 6 ? atoi(words[2]) : 0;
	struct rusage *seen = mmap(NULL, (children + 1) * sizeof(*seen), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long minor = 0, major = 0, switches = 0;
	FILE *file;

	if (count != 6)
		return 2;
	for (int child = 0; child < children; child++)
		if (fork() == 0) {
			seen[child] = work(atol(words[3]), atoi(words[4]), atoi(words[5]));
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	for (int child = 0; child < children; child++) {
		minor += seen[child].ru_minflt;
		major += seen[child].ru_majflt;
		switches += seen[child].ru_nvcsw + seen[child].ru_nivcsw;
	}
	file = fopen(words[1], "w");
	fprintf(file, "%ld %ld %ld\n", minor, major, switches);
	return fclose(file);
}
