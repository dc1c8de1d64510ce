/* SPDX-License-Identifier: MIT */
/* Loops of which it is known what a machine's caches, TLBs and predictors do. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ktax-mark.h"

enum { STEPS = 400000 };

static uint64_t draw(uint64_t below)
{
    static uint64_t state = 88172645463325252;

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

/* Follows pointers through places that are `stride` bytes apart, in a random circle. */
static void chase(uint64_t count, uint64_t stride)
{
    char *all = mmap(NULL, count * stride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
    uint64_t *order = malloc(count * sizeof(*order));

    for (uint64_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (uint64_t i = count - 1; i > 0; i--) {
        uint64_t other = draw(i);
        uint64_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (uint64_t i = 0; i < count; i++) {
        *(char **)(all + order[i] * stride) = all + order[(i + 1) % count] * stride;
    }
    char *at = all;
    for (uint64_t i = 0; i < 2 * count; i++) {
        at = *(char *volatile *)at;
    }
    ktax_begin();
    for (uint64_t i = 0; i < STEPS; i++) {
        at = *(char *volatile *)at;
    }
    ktax_end();
}

/* A branch is taken in one of `period` steps, or at random if that is 0. */
static void branch(uint64_t period)
{
    static char bits[STEPS];

    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < STEPS; i++) {
            bits[i] = period ? i % period == 0 : draw(2);
        }
        if (round == 1) {
            ktax_begin();
        }
        for (uint64_t i = 0; i < STEPS; i++) {
            asm volatile("cmpb $0, (%0)\n\t jne 1f\n\t nop\n 1:" : : "r"(bits + i) : "cc");
        }
    }
    ktax_end();
}

/* A call whose target is on the stack: the return goes elsewhere than it was called from. */
static void retpoline(void)
{
    ktax_begin();
    for (uint64_t i = 0; i < STEPS; i++) {
        asm volatile("lea 4f(%%rip), %%rax\n\t call 1f\n\t jmp 5f\n"
                     "1: call 3f\n 2: pause\n\t lfence\n\t jmp 2b\n"
                     "3: mov %%rax, (%%rsp)\n\t ret\n"
                     "4: ret\n 5:" : : : "rax", "memory");
    }
    ktax_end();
}

/* Calls a function of a library that is mapped at run time. */
static void library(int is_counted)
{
    static volatile char number[] = "7";
    uint64_t sum = 0;

    for (int round = 0; round < 2; round++) {
        if (round == 1 && is_counted) {
            ktax_begin();
        }
        for (uint64_t i = 0; i < STEPS; i++) {
            sum += strtoull((char *)number, NULL, 10);
        }
    }
    if (is_counted) {
        ktax_end();
    }
    if (sum != 14ULL * STEPS) {
        abort();
    }
}

int main(int argc, char **argv)
{
    uint64_t numbers[2] = { 0, 0 };

    for (int i = 0; i < 2 && i + 2 < argc; i++) {
        numbers[i] = strtoull(argv[i + 2], NULL, 10);
    }
    if (strcmp(argv[1], "chase") == 0) {
        chase(numbers[0], numbers[1]);
    } else if (strcmp(argv[1], "branch") == 0) {
        branch(numbers[0]);
    } else if (strcmp(argv[1], "library") == 0) {
        library(argc == 2);
    } else {
        retpoline();
    }
    return 0;
}
