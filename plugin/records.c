/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "records.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    LINE = 64,
    PIECE = 2 << 20, /* one large page */
};

void *ktax_record(size_t bytes)
{
    static char *piece;
    static size_t used = PIECE;
    size_t size = (bytes + LINE - 1) & ~(size_t)(LINE - 1);

    if (used + size > PIECE) {
        char *more = aligned_alloc(PIECE, PIECE);
        if (!more) {
            return NULL;
        }
        madvise(more, PIECE, MADV_HUGEPAGE); /* it is slower without, and that is all */
        memset(more, 0, PIECE);
        piece = more;
        used = 0;
    }
    used += size;
    return piece + used - size;
}
