/* SPDX-License-Identifier: MIT */
/* Rules, and what can be said of a position by looking at it. */
#include "connect4.h"

enum { RIGHT = 7 }; /* bits to the next column */

static const uint64_t bottom = 0x40810204081, column = 0x3f, squares = bottom * column;

/* The squares, free or not, that make four in a row with three of `s`. */
static uint64_t fourths(uint64_t s)
{
	uint64_t found = (s << 1) & (s << 2) & (s << 3);

	for (unsigned step = RIGHT - 1; step <= RIGHT + 1; step++) {
		uint64_t pair = (s << step) & (s << 2 * step);
		found |= pair & ((s << 3 * step) | (s >> step));
		pair = (s >> step) & (s >> 2 * step);
		found |= pair & ((s >> 3 * step) | (s << step));
	}
	return found & squares;
}

static bool has_four(uint64_t s)
{
	return fourths(s) & s;
}

static uint64_t landings(struct c4_board b)
{
	return (b.all + bottom) & squares;
}

bool c4_wins_at_once(struct c4_board b)
{
	return fourths(b.own) & landings(b);
}

bool c4_play(struct c4_board *b, unsigned number)
{
	uint64_t move;

	if (number < 1 || number > COLUMNS)
		return false;
	move = landings(*b) & (column << RIGHT * (number - 1));
	if (!move || fourths(b->own) & move)
		return false;
	*b = (struct c4_board){ b->own ^ b->all, b->all | move };
	return true;
}

/*
 * Where every column is even, the other side can always answer in the same column: it then has all
 * free squares of the even rows, and the side to move no more than those of the odd ones.
 */
struct c4_bounds c4_judge(struct c4_board b)
{
	const uint64_t even_rows = (bottom << 1) | (bottom << 3) | (bottom << 5);
	uint64_t free = squares & ~b.all, other = b.own ^ b.all;
	bool follows = !(landings(b) & even_rows);
	uint64_t reachable = b.own | (follows ? free & ~even_rows : free);
	struct c4_bounds bounds = { has_four(other | free) ? LOSS : DRAW, WIN };

	if (!has_four(reachable))
		bounds.most = follows && has_four(other | (free & even_rows)) ? LOSS : DRAW;
	return bounds;
}

/*
 * The boards after each move that does not lose at once: that with most threats first, and of
 * equals that in the middle.
 */
unsigned c4_moves(struct c4_board b, struct c4_board after[COLUMNS])
{
	static const uint8_t order[COLUMNS] = { 3, 2, 4, 1, 5, 0, 6 };
	uint64_t threats = fourths(b.own ^ b.all) & ~b.all, moves = landings(b);
	unsigned made[COLUMNS], n = 0;

	if (moves & threats)
		moves &= threats;
	if (moves & threats & (moves - 1)) /* no single move is against two threats */
		return 0;
	moves &= ~(threats >> 1);
	for (unsigned i = 0; moves && i < COLUMNS; i++) {
		uint64_t move = moves & (column << RIGHT * order[i]), found;
		if (!move)
			continue;
		unsigned count = 0, at = n++;
		for (found = fourths(b.own | move) & ~b.all; found; found &= found - 1)
			count++;
		for (; at && made[at - 1] < count; at--) {
			made[at] = made[at - 1];
			after[at] = after[at - 1];
		}
		made[at] = count;
		after[at] = (struct c4_board){ b.own ^ b.all, b.all | move };
	}
	return n;
}
