/* SPDX-License-Identifier: MIT */
/* Which jobs there are, how often a user does each, and in which order. */
#include "jobs.h"
#include "random.h"

/* Names and weights are those of AIM7's high_systime. */
const struct job jobs[JOBS] = {
	{ "pipe-cpy", 30, pipe_cpy },
	{ "creat-clo", 20, creat_clo },
	{ "brk-test", 20, brk_test },
	{ "exec-test", 20, exec_test },
	{ "link-test", 20, link_test },
	{ "page-test", 20, page_test },
	{ "shell-rtns-1", 20, shell_list },
	{ "dgram-pipe", 10, dgram_pipe },
	{ "dir-rtns-1", 10, dir_rtns_1 },
	{ "fork-test", 10, fork_test },
	{ "misc-rtns-1", 10, misc_rtns_1 },
	{ "shared-memory", 10, shared_memory },
	{ "signal-test", 10, signal_test },
	{ "stream-pipe", 10, stream_pipe },
	{ "tcp-test", 10, tcp_test },
	{ "udp-test", 10, udp_test },
	{ "shell-rtns-2", 10, shell_sleep },
	{ "shell-rtns-3", 10, shell_list },
};

/* A hundred by weight; each share is rounded to whole jobs, so that the sum is not a hundred. */
static unsigned share(unsigned which)
{
	const unsigned wanted = 100;
	unsigned total = 0, n;

	for (unsigned i = 0; i < JOBS; i++)
		total += jobs[i].weight;
	n = (2 * wanted * jobs[which].weight + total) / (2 * total);
	return n ? n : 1;
}

bool jobs_each(void)
{
	for (unsigned which = 0; which < JOBS; which++)
		if (!job_do(which))
			return false;
	return true;
}

bool jobs_round(uint64_t *random)
{
	unsigned kind[JOBS], left[JOBS], kinds = JOBS;

	jobs_rewind();
	for (unsigned i = 0; i < JOBS; i++) {
		kind[i] = i;
		left[i] = share(i);
	}
	while (kinds) {
		unsigned at = below(random, kinds), which = kind[at];
		if (!job_do(which))
			return false;
		if (!--left[which])
			kind[at] = kind[--kinds];
	}
	return true;
}
