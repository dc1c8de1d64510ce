/* SPDX-License-Identifier: MIT */
/*
 * Solves a position of connect-4: who wins if both play well? The tables of KVM's exit timings
 * have such a solver because it looks into its transposition table at random: a load for the TLB,
 * and for nothing else of the kernel. All of the table is touched before the Region.
 */
#include <errno.h>

#include "connect4.h"
#include "ktax.h"

static struct c4_board start;
static struct { uint64_t value, nodes; } first, now;

/* The same search each time, because the table forgets. */
static int op(void)
{
	uint64_t before = c4_nodes;

	now.value = c4_solve(start);
	now.nodes = c4_nodes - before;
	if (!first.nodes)
		first = now;
	return now.value != first.value || now.nodes != first.nodes;
}

/* `moves` are the columns from the first move to the last, as decimal digits. */
static struct c4_board played(uint64_t moves)
{
	struct c4_board board = { 0 };
	uint64_t place = 1;

	while (moves / place >= 10)
		place *= 10;
	for (; place; place /= 10)
		if (!c4_play(&board, moves / place % 10))
			fail("position: columns are 1 to 7, of six squares, and nobody has won");
	return board;
}

static void connect4_run(const struct order *o)
{
	const uint64_t easy = 124315432644; /* what is asked for may take minutes */
	uint64_t mib = param(o, "table-mib", 64);

	errno = EINVAL;
	if (!mib || mib > 1024 || mib & (mib - 1))
		fail("table-mib: a power of two, at most 1024");
	start = played(param(o, "position", 45461667));
	c4_table(pages(mib << 8), mib);
	if (c4_solve(played(easy)) != WIN)
		fail("warm-up");
	measure(o, 0, op, "solved");
	sig("value", first.value);
	sig("nodes", first.nodes);
}

WORKLOAD("connect4", connect4_run);
