/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "bandwidth.h"

/* One loop for warm-up and Region, as repeat() in region.c. */
static __attribute__((noinline, noclone)) uint64_t
move_all(uint64_t kib, uint64_t piece, uint64_t (*move)(uint64_t kib))
{
	uint64_t proved = 0;

	for (; kib > piece; kib -= piece)
		proved += move(piece);
	return proved + move(kib);
}

void bandwidth(const struct order *o, uint64_t warm_up, uint64_t piece,
	       uint64_t (*move)(uint64_t kib), const char *proof)
{
	uint64_t proved;

	if (!move_all(warm_up, piece, move))
		fail("warm-up");
	region_begin();
	proved = move_all(o->ops, piece, move);
	region_end();
	sig(proof, proved);
}

void fill_kib(uint32_t *at, uint64_t kib)
{
	for (uint64_t k = 0; k < kib; k++)
		for (uint64_t i = 0; i < KIB_INTS; i++)
			*at++ = 1 + (k + i) % KIB_INTS;
}

uint64_t sum_kib(const uint32_t *at, uint64_t kib)
{
	uint64_t all = 0;

	for (; kib; kib--) {
		uint32_t sum = 0;
		UNROLLED for (int i = 0; i < KIB_INTS; i++) {
			sum += *at++;
			__asm__("" : "+r"(sum)); /* one by one: no vectors */
		}
		all += sum;
	}
	return all;
}

uint32_t *filled_kib(uint64_t kib)
{
	uint32_t *at = (uint32_t *)pages((kib * KIB + PAGE - 1) / PAGE);

	fill_kib(at, kib);
	return at;
}

int filled_file(uint64_t kib)
{
	uint32_t *piece = filled_kib(PIECE_KIB);
	int fd = memfd_create("ktax", MFD_CLOEXEC);

	if (fd < 0)
		fail("memfd_create");
	for (; kib; kib -= PIECE_KIB)
		if (write(fd, piece, PIECE_KIB * KIB) != PIECE_KIB * KIB)
			fail("write");
	return fd;
}
