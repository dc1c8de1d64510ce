/* SPDX-License-Identifier: MIT */
/* Asks the kernel for the time, past the C library and the vDSO. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ktax-mark.h"

enum { CALLS = 500 };

int main(void)
{
    struct timespec now;

    ktax_begin();
    for (int i = 0; i < CALLS; i++) {
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    }
    ktax_end();
    return 0;
}
