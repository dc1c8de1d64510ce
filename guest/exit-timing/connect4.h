/* SPDX-License-Identifier: MIT */
/* Connect-4. A value is what a position is worth to the side to move. */
#ifndef CONNECT4_H
#define CONNECT4_H

#include <stdbool.h>
#include <stdint.h>

enum { LOSS, DRAW, WIN };
enum { COLUMNS = 7 };

/* Seven columns of seven bits, from the bottom; the seventh row stays empty. */
struct c4_board {
	uint64_t own, all; /* stones of the side to move, and of both */
};

struct c4_bounds {
	unsigned least, most; /* values */
};

/* connect4-board.c */
bool c4_play(struct c4_board *b, unsigned column); /* 1 to 7; false if the game has no such move */
bool c4_wins_at_once(struct c4_board b);
struct c4_bounds c4_judge(struct c4_board b); /* without a search */
unsigned c4_moves(struct c4_board b, struct c4_board after[COLUMNS]);

/* connect4-table.c: what searches found */
void c4_table(void *memory, uint64_t mib); /* a power of two */
void c4_forget(void);
struct c4_bounds c4_known(struct c4_board b);
void c4_learn(struct c4_board b, unsigned stones, struct c4_bounds bounds);

/* connect4-solver.c */
extern uint64_t c4_nodes; /* positions searched so far */
unsigned c4_solve(struct c4_board b);

#endif
