/* SPDX-License-Identifier: MIT */
/* Read a file that is in memory from its beginning, 64 KiB at a time, and add up what was read. */
#include <sys/syscall.h>
#include <unistd.h>

#include "bandwidth.h"

static int fd;
static uint32_t *buffer;

static uint64_t reread(uint64_t kib)
{
	uint64_t sum = 0;

	if (syscall(SYS_lseek, fd, 0, SEEK_SET))
		return 0;
	while (kib) {
		uint64_t piece = kib < PIECE_KIB ? kib : PIECE_KIB;
		*buffer = 0; /* what the last read left must not make this one's sum right */
		if (syscall(SYS_read, fd, buffer, piece * KIB) != (long)(piece * KIB))
			return 0;
		sum += sum_kib(buffer, piece);
		kib -= piece;
	}
	return sum;
}

static void file_reread_run(const struct order *o)
{
	const uint64_t kib = param(o, "mib", 8) * MIB_KIB;

	fd = filled_file(kib);
	buffer = (uint32_t *)pages(PIECE_KIB * KIB / PAGE);
	/* All of it once before: the first read of a page costs more, it marks the page as used. */
	bandwidth(o, kib, kib, reread, "sum");
}

WORKLOAD("file-reread", file_reread_run);
