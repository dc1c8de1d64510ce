/* SPDX-License-Identifier: MIT */
/* Refers to memory so that neither caches nor the TLB help: never to one page twice in a row. */
#include "load.h"

enum { ROWS = 256, LINE = 64 };

static volatile char *memory;
static uint64_t columns;

static uint64_t prepare(uint64_t mib)
{
	columns = (mib << 20) / PAGE / ROWS;
	memory = pages(columns * ROWS);
	return 1000 * columns * ROWS; /* a thousand times all of it */
}

/* The pages of a matrix by columns; each pass takes the next line of every page. */
static void run(unsigned process)
{
	for (uint64_t pass = process;; pass++)
		for (uint64_t column = 0; column < columns; column++)
			for (uint64_t row = 0; row < ROWS; row++) {
				memory[(row * columns + column) * PAGE + pass * LINE % PAGE]++;
				if (pass && !load_goes_on()) /* the first pass makes the pages */
					return;
			}
}

const struct load load_mem = { prepare, run, NULL };
