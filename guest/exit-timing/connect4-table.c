/* SPDX-License-Identifier: MIT */
/*
 * The transposition table. A position's hash is a permutation of its 49 bits, so that a bucket's
 * number and a tag are all of it. Forgetting is a new number of the search: to clear the table
 * would be most of the work of an easy position.
 */
#include <string.h>

#include "connect4.h"

enum { POSITION_BITS = 49 };

static struct entry {
	uint64_t tag : 33, least : 2, most : 2, stones : 6, search : 21;
} (*table)[2];
static unsigned tag_bits;
static uint64_t search;

void c4_table(void *memory, uint64_t mib)
{
	tag_bits = POSITION_BITS - 16 - __builtin_ctzll(mib); /* 2^16 buckets of 16 bytes a MiB */
	table = memset(memory, 0, mib << 20);
}

void c4_forget(void)
{
	search = search % ((1ul << 21) - 1) + 1; /* never that of an empty entry */
}

static struct entry *bucket(struct c4_board b, uint64_t *tag)
{
	/* a stone's square holds 1 for one side and 2 for the other, and the carry goes up */
	uint64_t hash = (b.own + b.all) * 0x9e3779b97f4a7c15 & ((1ul << POSITION_BITS) - 1);

	*tag = hash & ((1ul << tag_bits) - 1);
	return table[hash >> tag_bits];
}

static bool is(const struct entry *e, uint64_t tag)
{
	return e->search == search && e->tag == tag;
}

struct c4_bounds c4_known(struct c4_board b)
{
	uint64_t tag;
	const struct entry *e = bucket(b, &tag);

	for (unsigned i = 0; i < 2; i++)
		if (is(e + i, tag))
			return (struct c4_bounds){ e[i].least, e[i].most };
	return (struct c4_bounds){ 0, 2 };
}

/* The first of a bucket's two is the one with fewer stones, which took longer. */
void c4_learn(struct c4_board b, unsigned stones, struct c4_bounds bounds)
{
	uint64_t tag;
	struct entry *e = bucket(b, &tag);

	if (!is(e, tag)) {
		bool first = e->search != search || stones <= e->stones;
		if (is(e + 1, tag) || !first)
			e++;
		else
			e[1] = e[0];
	}
	*e = (struct entry){ tag, bounds.least, bounds.most, stones, search };
}
