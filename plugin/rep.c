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

static void on_rep(void *data, enum ktax_costly kind)
{
    uint64_t site = (uintptr_t)data;
    int slot = (int)(site >> 48);

    if (ktax_rep_current() == site) {
        ktax_reps[slot]++;
        ktax_reps_total++;
    } else {
        if (kind != COSTLY_NONE && ktax_costly_counted) {
            ktax_costly_count(kind, slot);
        }
        ktax_counters->insns[slot]++;
    }
    ktax_rep_resume(site);
}

/* QEMU gives a callback one word, which the site fills: each kind has a callback of its own. */
#define ON(kind)                                               \
    static void on_##kind(unsigned int vcpu, void *data)       \
    {                                                          \
        (void)vcpu;                                            \
        on_rep(data, COSTLY_##kind);                           \
    }

ON(NONE)
ON(REP_STOSB)
ON(REP_STOS)
ON(REP_MOVSB)
ON(REP_MOVS)

qemu_plugin_exec_fn ktax_rep_callback(enum ktax_costly kind)
{
    switch (kind) {
    case COSTLY_REP_STOSB:
        return on_REP_STOSB;
    case COSTLY_REP_STOS:
        return on_REP_STOS;
    case COSTLY_REP_MOVSB:
        return on_REP_MOVSB;
    case COSTLY_REP_MOVS:
        return on_REP_MOVS;
    default:
        return on_NONE;
    }
}
