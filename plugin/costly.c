/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A site is one kind in a function, of one model-specific register. There are some hundred, and few
 * are met often.
 */
#include "costly.h"

#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "counters.h"
#include "cpus.h"
#include "paths.h"
#include "registers.h"

enum { SITES = 16384, TABLE = 2 * SITES };

bool ktax_costly_counted = true;

static struct ktax_costly_site sites[SITES];
static int site_count;
static int table[TABLE]; /* a site, from 1 */
static bool is_full;
static uint64_t pending[KTAX_CPUS][SITES];

static struct ktax_costly_site *find(enum ktax_costly kind, int slot, uint64_t msr)
{
    unsigned i = ((unsigned)slot * COSTLY_COUNT + kind + (unsigned)msr) * 2654435761U % TABLE;

    for (; table[i] != 0; i = (i + 1) % TABLE) {
        struct ktax_costly_site *site = &sites[table[i] - 1];
        if (site->slot == slot && site->kind == (int)kind && site->msr == msr) {
            return site;
        }
    }
    if (site_count == SITES) {
        is_full = true;
        return NULL;
    }
    sites[site_count] = (struct ktax_costly_site){ .slot = slot, .kind = kind, .msr = msr };
    table[i] = ++site_count;
    return &sites[site_count - 1];
}

static void count(struct ktax_costly_site *site)
{
    enum ktax_context context = ktax_context_now();

    if (context == CONTEXT_PENDING) {
        pending[ktax_cpu - ktax_cpus][site - sites]++;
    } else {
        site->counts[context]++;
    }
    if (ktax_paths_followed) {
        ktax_calls_costly(site->kind);
    }
}

/* Before what the instruction does to the context and to where the vCPU is. */
static void on_costly(unsigned int vcpu, void *data)
{
    (void)vcpu;
    count(data);
}

/* ECX has the number of the register. */
static void on_msr(unsigned int vcpu, void *data)
{
    static struct qemu_plugin_register *rcx;
    static bool is_asked;
    struct ktax_costly_site *unknown = data;
    struct ktax_costly_site *site = NULL;
    uint64_t value;

    (void)vcpu;
    if (!is_asked) {
        rcx = ktax_register_find("rcx");
        is_asked = true;
    }
    if (ktax_register_get(rcx, &value)) {
        site = find(unknown->kind, unknown->slot, (uint64_t)(uint32_t)value + 1);
    }
    count(site ? site : unknown);
}

void ktax_costly_count(enum ktax_costly kind, int slot)
{
    struct ktax_costly_site *site = find(kind, slot, 0);

    if (site) {
        count(site);
    }
}

void ktax_costly_watch(struct qemu_plugin_insn *insn, enum ktax_costly kind, int slot)
{
    struct ktax_costly_site *site = find(kind, slot, 0);

    if (!site) {
        return;
    }
    if ((kind == COSTLY_WRMSR || kind == COSTLY_RDMSR) && ktax_registers_are_there()) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_msr, QEMU_PLUGIN_CB_R_REGS, site);
    } else {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_costly, QEMU_PLUGIN_CB_NO_REGS, site);
    }
}

void ktax_costly_settle(enum ktax_context context)
{
    uint64_t *of_cpu = pending[ktax_cpu - ktax_cpus];

    for (int i = 0; i < site_count; i++) {
        sites[i].counts[context] += of_cpu[i];
        of_cpu[i] = 0;
    }
}

void ktax_costly_clear(void)
{
    for (int i = 0; i < site_count; i++) {
        memset(sites[i].counts, 0, sizeof(sites[i].counts));
    }
    memset(pending, 0, sizeof(pending));
}

bool ktax_costly_take(struct ktax_region *to)
{
    size_t size = (size_t)site_count * sizeof(*sites);

    to->costly = site_count ? malloc(size) : NULL;
    to->costly_count = to->costly ? site_count : 0;
    if (to->costly) {
        memcpy(to->costly, sites, size);
    }
    return to->costly || site_count == 0;
}

const char *ktax_costly_split_failed(void)
{
    return is_full ? "more than 16384 functions and registers with costly instructions" : NULL;
}
