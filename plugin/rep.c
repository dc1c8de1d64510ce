/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "rep.h"

#include "counters.h"

static uint64_t last_site;
static uint64_t last_total; /* before the last site was counted */

uint64_t ktax_rep_site(uint64_t address, int slot)
{
    return (uint64_t)slot << 48 | (address & ((UINT64_C(1) << 48) - 1));
}

uint64_t ktax_rep_current(void)
{
    return ktax_counters->total == last_total + 1 ? last_site : 0;
}

void ktax_rep_resume(uint64_t site)
{
    last_site = site;
    last_total = ktax_counters->total;
}

void ktax_on_rep(unsigned int vcpu, void *data)
{
    uint64_t site = (uintptr_t)data;
    int slot = (int)(site >> 48);

    (void)vcpu;
    if (ktax_rep_current() == site) {
        ktax_reps[slot]++;
    } else {
        ktax_counters->insns[slot]++;
    }
    ktax_rep_resume(site);
}
