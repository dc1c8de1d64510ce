/* SPDX-License-Identifier: MIT */
/* What a load of users says: what they did, and natively how long and how evenly. */
#include "jobs.h"
#include "nanoseconds.h"

uint64_t users_clock(void)
{
	return nanoseconds() / 1000;
}

static uint64_t root(uint64_t square)
{
	uint64_t low = 0, high = UINT32_MAX;

	while (low < high) {
		uint64_t middle = low + (high - low + 1) / 2;
		if (middle * middle <= square)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static void times_say(uint64_t start)
{
	uint64_t sum = 0, min = UINT64_MAX, max = 0;
	unsigned __int128 squares = 0;

	for (uint64_t i = 0; i < users; i++) {
		uint64_t t = user[i].end - start;
		sum += t;
		min = t < min ? t : min;
		max = t > max ? t : max;
	}
	for (uint64_t i = 0; i < users; i++) {
		__int128 off = (__int128)(user[i].end - start) - sum / users;
		squares += off * off;
	}
	value("elapsed-mean-us", sum / users);
	value("elapsed-stddev-us", root(squares / users)); /* these are all, no sample */
	value("elapsed-min-us", min);
	value("elapsed-max-us", max);
}

void multi_user_say(uint64_t start)
{
	uint64_t end = users_clock(), jobs_done = 0;

	for (unsigned which = 0; which < JOBS; which++) {
		uint64_t work = 0;
		for (uint64_t i = 0; i < users; i++)
			work += user[i].work[which];
		sig(jobs[which].name, work);
	}
	for (uint64_t i = 0; i < users; i++)
		jobs_done += user[i].jobs;
	sig("jobs", jobs_done);
	if (counted)
		return;
	value("parent-us", end - start);
	times_say(start);
}
