/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cpus.h"

#include "registers.h"

/* Until a boot has made the areas, the first vCPU uses one within the kernel's image. */
#define IMAGE UINT64_C(0xffffffff80000000)

int ktax_cpu_count = 1;
struct ktax_cpu ktax_cpus[KTAX_CPUS];
struct ktax_cpu *ktax_cpu = &ktax_cpus[0];

struct ktax_running ktax_running = { .used = KTAX_LIMIT };
uint64_t ktax_cpus_booked;
struct ktax_running ktax_booked = { .used = KTAX_LIMIT };

static struct qemu_plugin_register *gs_base;
static struct qemu_plugin_register *kernel_gs_base;

bool ktax_cpus_init(int count)
{
    ktax_cpu_count = count;
    for (int i = 0; i < KTAX_CPUS; i++) {
        ktax_cpus[i].index = -1;
        ktax_cpus[i].task = &ktax_cpus[i].first_task;
    }
    /* A vCPU alone executes the guest program; of several most are idle. */
    ktax_cpus[0].first_task.user = ktax_one_cpu();
    return ktax_one_cpu() || (count <= KTAX_CPUS && ktax_registers_are_there());
}

void ktax_cpus_start(void)
{
    if (!ktax_one_cpu() && !gs_base) {
        gs_base = ktax_register_find("gs_base");
        kernel_gs_base = ktax_register_find("k_gs_base");
    }
}

struct ktax_cpu *ktax_cpus_read(void)
{
    uint64_t base = ktax_register_read(gs_base);

    /* In user mode, and on the first instructions of an entry, the kernel's base is swapped out. */
    if (!(base >> 63)) {
        base = ktax_register_read(kernel_gs_base);
    }
    if (!(base >> 63) || base >= IMAGE) {
        return NULL;
    }
    for (int i = 0; i < ktax_cpu_count; i++) {
        if (ktax_cpus[i].base == 0) {
            ktax_cpus[i].base = base;
        }
        if (ktax_cpus[i].base == base) {
            return &ktax_cpus[i];
        }
    }
    return NULL;
}

uint64_t ktax_cpus_total(void)
{
    return ktax_cpu->total + ktax_running.used - ktax_booked.used;
}

uint64_t ktax_cpus_user(void)
{
    return ktax_cpu->user + ktax_running.user - ktax_booked.user;
}
