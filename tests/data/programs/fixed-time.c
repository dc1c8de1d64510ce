/* SPDX-License-Identifier: MIT */
/*
 * Calls for a fixed time, and prints how often: as UnixBench's programs do, or as those of
 * will-it-scale (with an argument).
 */
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

int main(int argc, char **argv)
{
	long begin = nanoseconds(), calls = 0;

	(void)argv;
	do {
		for (int i = 0; i < 100; i++)
			syscall(SYS_getppid);
		calls += 100;
	} while (nanoseconds() - begin < 10000000L);
	if (argc > 1)
		printf("testcase:getppid()\nwarmup\nmeasurement\nmin:%ld max:%ld total:%ld\naverage:%ld\n",
		       calls, calls, calls, calls);
	else
		fprintf(stderr, "COUNT|%ld|1|lps\n", calls);
	return 0;
}
