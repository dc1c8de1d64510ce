/* SPDX-License-Identifier: MIT */
/*
 * Some processes for each job in a ring of pipes, and one chunk for each job on its way round it:
 * context switches and nothing else. One that ends closes its pipes, which ends its neighbours.
 */
#include <signal.h>
#include <unistd.h>

#include "load.h"

enum { CHUNK = 256 };

static int ring[PROCESSES_MAX][2];
static unsigned length;

static void keep(unsigned in, unsigned out)
{
	for (unsigned i = 0; i < length; i++) {
		if (i != in)
			close(ring[i][0]);
		if (i != out)
			close(ring[i][1]);
	}
}

static uint64_t prepare(uint64_t mib)
{
	const char chunk[CHUNK] = { 0 };

	(void)mib;
	length = FOR_EACH_JOB * build.jobs;
	for (unsigned i = 0; i < length; i++)
		if (pipe(ring[i]))
			fail("pipe");
	for (unsigned i = 0; i < length; i += FOR_EACH_JOB)
		if (write(ring[i][1], chunk, CHUNK) != CHUNK)
			fail("pipe");
	return 10000;
}

static void run(unsigned process)
{
	unsigned next = (process + 1) % length;
	char chunk[CHUNK];

	signal(SIGPIPE, SIG_IGN);
	keep(process, next);
	while (read(ring[process][0], chunk, CHUNK) == CHUNK && load_goes_on())
		if (write(ring[next][1], chunk, CHUNK) != CHUNK)
			return;
}

static void release(void)
{
	keep(length, length);
}

const struct load load_process = { prepare, run, release };
