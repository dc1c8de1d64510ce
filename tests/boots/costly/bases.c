/* SPDX-License-Identifier: MIT */
/* Asks the kernel for another base of GS. */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax-mark.h"

enum { CALLS = 500 };

int main(void)
{
    ktax_begin();
    for (unsigned long i = 0; i < CALLS; i++) {
        syscall(SYS_arch_prctl, ARCH_SET_GS, i * 4096);
    }
    ktax_end();
    return 0;
}
