/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "rep.h"

#include "counters.h"
#include "cpus.h"

static uint64_t total(void)
{
    return ktax_one_cpu() ? ktax_counters->total : ktax_cpus_total();
}

uint64_t ktax_rep_site(uint64_t address, int slot)
{
    return (uint64_t)slot << 48 | (address & ((UINT64_C(1) << 48) - 1));
}

uint64_t ktax_rep_current(void)
{
    return total() == ktax_cpu->rep_total + 1 ? ktax_cpu->rep_site : 0;
}

void ktax_rep_resume(uint64_t site)
{
    ktax_cpu->rep_site = site;
    ktax_cpu->rep_total = total();
}

void ktax_on_rep(unsigned int vcpu, void *data)
{
    uint64_t site = (uintptr_t)data;
    int slot = (int)(site >> 48);

    (void)vcpu;
    if (ktax_rep_current() == site) {
        ktax_reps[slot]++;
        ktax_reps_total++;
    } else {
        ktax_counters->insns[slot]++;
    }
    ktax_rep_resume(site);
}
