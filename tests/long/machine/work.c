/* SPDX-License-Identifier: MIT */
/* Sorts, and uses a table that no cache holds, at random. */
#include <stdint.h>

#include "ktax-mark.h"

enum { SORTED = 1 << 16, TABLE = 1 << 21 };

static uint32_t sorted[SORTED];
static uint64_t table[TABLE]; /* 16 MiB */
static uint64_t state = 88172645463325252;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

__attribute__((noinline)) void counted(void)
{
    for (int gap = SORTED / 2; gap > 0; gap /= 2) {
        for (int i = gap; i < SORTED; i++) {
            for (int j = i - gap; j >= 0 && sorted[j] > sorted[j + gap]; j -= gap) {
                uint32_t kept = sorted[j];
                sorted[j] = sorted[j + gap];
                sorted[j + gap] = kept;
            }
        }
    }
    /* No instruction loads and stores: callgrind counts such a one as one access. */
    uint64_t sum = 0;
    for (int i = 0; i < 1000000; i++) {
        sum += table[draw() % TABLE];
        table[i * 8 % TABLE] = sum;
    }
    __asm__("");
}

int main(void)
{
    /* Each page is there before anything is counted. */
    for (int i = 0; i < TABLE; i++) {
        table[i] = i;
    }
    for (int i = 0; i < SORTED; i++) {
        sorted[i] = draw();
    }
    ktax_begin();
    counted();
    ktax_end();
    return 0;
}
