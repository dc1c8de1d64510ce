/* SPDX-License-Identifier: MIT */
/*
 * Solves a position of connect-4: who wins if both play well? The tables of KVM's exit timings
 * have such a solver because it looks into its transposition table at random: a load for the TLB,
 * and for nothing else of the kernel. All of the table is touched before the Region.
 */
#include <errno.h>
#include <string.h>

#include "ktax.h"

enum { LOSS, DRAW, WIN }; /* the value of a position for the side to move */
enum { COLUMNS = 7 };

/* Seven columns of seven bits, from the bottom; the seventh row stays empty. */
struct board {
	uint64_t own, all; /* stones of the side to move, and of both */
};

struct bounds {
	unsigned least, most; /* values */
};

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

static uint64_t landings(struct board b)
{
	return (b.all + bottom) & squares;
}

static bool wins_at_once(struct board b)
{
	return fourths(b.own) & landings(b);
}

/* Makes the move in column 1 to 7; false if the game has no such move. */
static bool play(struct board *b, unsigned number)
{
	uint64_t move;

	if (number < 1 || number > COLUMNS)
		return false;
	move = landings(*b) & (column << RIGHT * (number - 1));
	if (!move || fourths(b->own) & move)
		return false;
	*b = (struct board){ b->own ^ b->all, b->all | move };
	return true;
}

/*
 * Bounds without a search. Where every column is even, the other side can always answer in the same
 * column: it then has all free squares of the even rows, and the side to move no more than those of
 * the odd ones.
 */
static struct bounds judge(struct board b)
{
	const uint64_t even_rows = (bottom << 1) | (bottom << 3) | (bottom << 5);
	uint64_t free = squares & ~b.all, other = b.own ^ b.all;
	bool follows = !(landings(b) & even_rows);
	uint64_t reachable = b.own | (follows ? free & ~even_rows : free);
	struct bounds bounds = { has_four(other | free) ? LOSS : DRAW, WIN };

	if (!has_four(reachable))
		bounds.most = follows && has_four(other | (free & even_rows)) ? LOSS : DRAW;
	return bounds;
}

/*
 * The boards after each move that does not lose at once: that with most threats first, and of
 * equals that in the middle.
 */
static unsigned moves(struct board b, struct board after[COLUMNS])
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
		after[at] = (struct board){ b.own ^ b.all, b.all | move };
	}
	return n;
}

/*
 * The transposition table. A position's hash is a permutation of its 49 bits, so that a bucket's
 * number and a tag are all of it. Forgetting is a new number of the search: to clear the table
 * would be most of the work of an easy position.
 */
enum { POSITION_BITS = 49 };

static struct entry {
	uint64_t tag : 33, least : 2, most : 2, stones : 6, search : 21;
} (*table)[2];
static unsigned tag_bits;
static uint64_t search;

static void make_table(void *memory, uint64_t mib)
{
	tag_bits = POSITION_BITS - 16 - __builtin_ctzll(mib); /* 2^16 buckets of 16 bytes a MiB */
	table = memset(memory, 0, mib << 20);
}

static void forget(void)
{
	search = search % ((1ul << 21) - 1) + 1; /* never that of an empty entry */
}

static struct entry *bucket(struct board b, uint64_t *tag)
{
	/* a stone's square holds 1 for one side and 2 for the other, and the carry goes up */
	uint64_t hash = (b.own + b.all) * 0x9e3779b97f4a7c15 & ((1ul << POSITION_BITS) - 1);

	*tag = hash & ((1ul << tag_bits) - 1);
	return table[hash >> tag_bits];
}

static bool is_of(const struct entry *e, uint64_t tag)
{
	return e->search == search && e->tag == tag;
}

static struct bounds known(struct board b)
{
	uint64_t tag;
	const struct entry *e = bucket(b, &tag);

	for (unsigned i = 0; i < 2; i++)
		if (is_of(e + i, tag))
			return (struct bounds){ e[i].least, e[i].most };
	return (struct bounds){ 0, 2 };
}

/* The first of a bucket's two is the one with fewer stones, which took longer. */
static void learn(struct board b, unsigned stones, struct bounds bounds)
{
	uint64_t tag;
	struct entry *e = bucket(b, &tag);

	if (!is_of(e, tag)) {
		bool first = e->search != search || stones <= e->stones;
		if (is_of(e + 1, tag) || !first)
			e++;
		else
			e[1] = e[0];
	}
	*e = (struct entry){ tag, bounds.least, bounds.most, stones, search };
}

/*
 * A search for "has the side to move at least `goal`": it has where some move leaves the other
 * side without the opposite goal. Two such questions give the value.
 */
static uint64_t nodes; /* positions searched so far */

static bool reaches(struct board b, unsigned stones, unsigned goal);

static bool some_move(struct board b, unsigned stones, unsigned goal)
{
	struct board after[COLUMNS];
	unsigned n = moves(b, after), opposite = WIN + DRAW - goal;

	for (unsigned i = 0; i < n; i++)
		if (known(after[i]).most < opposite)
			return true;
	for (unsigned i = 0; i < n; i++)
		if (!reaches(after[i], stones + 1, opposite))
			return true;
	return false;
}

/* Where the side to move cannot win at once. */
static bool reaches(struct board b, unsigned stones, unsigned goal)
{
	struct bounds bounds = judge(b);

	nodes++;
	if (bounds.least >= goal || bounds.most < goal)
		return bounds.least >= goal;
	bounds = known(b);
	if (bounds.least >= goal || bounds.most < goal)
		return bounds.least >= goal;
	if (some_move(b, stones, goal))
		bounds.least = goal;
	else
		bounds.most = goal - 1;
	learn(b, stones, bounds);
	return bounds.least >= goal;
}

static unsigned solve(struct board b)
{
	unsigned stones = __builtin_popcountll(b.all);

	forget();
	if (wins_at_once(b))
		return WIN;
	if (!reaches(b, stones, DRAW))
		return LOSS;
	return reaches(b, stones, WIN) ? WIN : DRAW;
}

static struct board start;
static struct { uint64_t value, nodes; } first, now;

/* One search, equal each time, because the table forgets. */
static int op(void)
{
	uint64_t before = nodes;

	now.value = solve(start);
	now.nodes = nodes - before;
	if (!first.nodes)
		first = now;
	return now.value != first.value || now.nodes != first.nodes;
}

/* `moves` are the columns from the first move to the last, as decimal digits. */
static struct board played(uint64_t moves)
{
	struct board board = { 0 };
	uint64_t place = 1;

	while (moves / place >= 10)
		place *= 10;
	for (; place; place /= 10)
		if (!play(&board, moves / place % 10))
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
	make_table(pages(mib << 8), mib);
	if (solve(played(easy)) != WIN)
		fail("warm-up");
	measure(o, 0, op, "solved");
	sig("value", first.value);
	sig("nodes", first.nodes);
}

WORKLOAD("connect4", connect4_run);
