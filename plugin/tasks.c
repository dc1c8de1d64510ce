/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An open-addressing table without removal. The kernel recycles task_structs, so the table has
 * about as many entries as there were tasks at one time. context.c resets an entry when a new task
 * starts in it.
 */
#include "tasks.h"

#include <string.h>

enum { BITS = 14, SIZE = 1 << BITS, MOST = SIZE / 4 * 3 };

static struct ktax_task table[SIZE];
static struct ktax_task overflow;
static int used;
static bool full;

struct ktax_task *ktax_task_find(uint64_t key)
{
    uint64_t at = (key * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - BITS);

    while (table[at].key != 0 && table[at].key != key) {
        at = (at + 1) % SIZE;
    }
    if (table[at].key == key) {
        return &table[at];
    }
    if (used == MOST) {
        full = true;
        memset(&overflow, 0, sizeof(overflow));
        return &overflow;
    }
    used++;
    table[at].key = key;
    return &table[at];
}

void ktax_tasks_forget_awaited(void)
{
    for (int i = 0; i < SIZE; i++) {
        table[i].is_awaited = false;
    }
}

bool ktax_tasks_full(void)
{
    return full;
}
