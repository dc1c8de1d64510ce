/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "yield.h"

#include "qemu_api.h"

static const void *time_control;

bool ktax_yield_init(void)
{
    if (qemu_plugin_request_time_control && qemu_plugin_update_ns) {
        time_control = qemu_plugin_request_time_control();
    }
    return time_control != NULL;
}

void ktax_yield(void)
{
    if (cpu_exit) {
        cpu_exit(current_cpu);
    } else {
        qemu_plugin_update_ns(time_control, 0);
    }
}
