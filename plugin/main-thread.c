/* SPDX-License-Identifier: GPL-2.0-or-later */
#define _GNU_SOURCE /* SCHED_BATCH, sched_getcpu() */
#include "main-thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Longer than any host lets a thread wait for its turn. */
enum { TRIES = 1000000 };

/* Enough for threads that do not take turns at once, and little enough for a busy host. */
enum { NICER = 5 };

static int file = -1;
static int followed = -1; /* the host's CPU where the other threads are */

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

static void defer(pid_t thread, int cpu)
{
    struct sched_param normal = { 0 };
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    (void)sched_setaffinity(thread, sizeof(set), &set);
    (void)sched_setscheduler(thread, SCHED_BATCH, &normal);
    (void)setpriority(PRIO_PROCESS, (id_t)thread, getpriority(PRIO_PROCESS, 0) + NICER);
}

void ktax_main_thread_follow(void)
{
    int cpu = sched_getcpu();

    if (cpu == followed || cpu < 0 || cpu >= CPU_SETSIZE) {
        return;
    }
    DIR *threads = opendir("/proc/self/task");
    for (struct dirent *it; threads && (it = readdir(threads));) {
        pid_t thread = (pid_t)strtol(it->d_name, NULL, 10);
        if (thread > 0 && thread != (pid_t)syscall(SYS_gettid)) {
            defer(thread, cpu);
        }
    }
    if (threads) {
        closedir(threads);
    }
    followed = cpu;
}
