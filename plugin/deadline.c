/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "deadline.h"

uint64_t ktax_deadline;
struct ktax_place ktax_places[KTAX_CPUS];

static uint64_t spent;

void ktax_deadline_at(enum ktax_doing doing, int slot)
{
    ktax_places[ktax_cpu - ktax_cpus] = (struct ktax_place){ doing, slot };
}

bool ktax_deadline_spend(uint64_t n)
{
    spent += n;
    return ktax_deadline > 0 && spent >= ktax_deadline;
}

void ktax_deadline_restart(void)
{
    spent = 0;
}
