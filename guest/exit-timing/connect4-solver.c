/* SPDX-License-Identifier: MIT */
/*
 * A search for "has the side to move at least `goal`": it has where some move leaves the other
 * side without the opposite goal. Two such questions give the value.
 */
#include "connect4.h"

uint64_t c4_nodes;

static bool reaches(struct c4_board b, unsigned stones, unsigned goal);

static bool some_move(struct c4_board b, unsigned stones, unsigned goal)
{
	struct c4_board after[COLUMNS];
	unsigned n = c4_moves(b, after), opposite = WIN + DRAW - goal;

	for (unsigned i = 0; i < n; i++)
		if (c4_known(after[i]).most < opposite)
			return true;
	for (unsigned i = 0; i < n; i++)
		if (!reaches(after[i], stones + 1, opposite))
			return true;
	return false;
}

/* Where the side to move cannot win at once. */
static bool reaches(struct c4_board b, unsigned stones, unsigned goal)
{
	struct c4_bounds bounds = c4_judge(b);

	c4_nodes++;
	if (bounds.least >= goal || bounds.most < goal)
		return bounds.least >= goal;
	bounds = c4_known(b);
	if (bounds.least >= goal || bounds.most < goal)
		return bounds.least >= goal;
	if (some_move(b, stones, goal))
		bounds.least = goal;
	else
		bounds.most = goal - 1;
	c4_learn(b, stones, bounds);
	return bounds.least >= goal;
}

unsigned c4_solve(struct c4_board b)
{
	unsigned stones = __builtin_popcountll(b.all);

	c4_forget();
	if (c4_wins_at_once(b))
		return WIN;
	if (!reaches(b, stones, DRAW))
		return LOSS;
	return reaches(b, stones, WIN) ? WIN : DRAW;
}
