/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "main-thread.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Longer than any host lets a thread wait for its turn. */
enum { TRIES = 1000000 };

static int file = -1;

static bool is_poll(long call)
{
#ifdef SYS_poll
    if (call == SYS_poll || call == SYS_epoll_wait) {
        return true;
    }
#endif
    return call == SYS_ppoll || call == SYS_epoll_pwait;
}

/* The number of the system call in which a thread sleeps; "running" has none. */
static bool waits_for_events(void)
{
    char text[128] = "";
    ssize_t n = pread(file, text, sizeof(text) - 1, 0);

    if (n <= 0) {
        return true; /* this host does not tell */
    }
    return text[0] >= '0' && text[0] <= '9' && is_poll(strtol(text, NULL, 10));
}

void ktax_main_thread_wait(void)
{
    if (file < 0) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", getpid());
        file = open(path, O_RDONLY | O_CLOEXEC);
    }
    for (int i = 0; file >= 0 && i < TRIES && !waits_for_events(); i++) {
        sched_yield();
    }
}
