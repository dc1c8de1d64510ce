/* SPDX-License-Identifier: GPL-2.0-or-later */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "yield.h"

#include <dlfcn.h>
#include <stddef.h>

#include "qemu_api.h"

static const void *time_control;
static void **current_cpu; /* of the thread of all vCPUs */

bool ktax_yield_init(void)
{
    if (qemu_plugin_request_time_control && qemu_plugin_update_ns) {
        time_control = qemu_plugin_request_time_control();
    }
    return time_control != NULL;
}

void ktax_yield(void)
{
    if (cpu_exit && !current_cpu) {
        current_cpu = dlsym(RTLD_DEFAULT, "current_cpu");
    }
    if (cpu_exit && current_cpu) {
        cpu_exit(*current_cpu);
    } else {
        qemu_plugin_update_ns(time_control, 0);
    }
}
