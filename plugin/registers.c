/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "registers.h"

#include <string.h>

static GByteArray *bytes;

bool ktax_registers_are_there(void)
{
    return qemu_plugin_get_registers && qemu_plugin_read_register && g_byte_array_new &&
           g_byte_array_set_size;
}

struct qemu_plugin_register *ktax_register_find(const char *name)
{
    GArray *registers = qemu_plugin_get_registers();
    const qemu_plugin_reg_descriptor *all = (const qemu_plugin_reg_descriptor *)registers->data;

    for (unsigned i = 0; i < registers->len; i++) {
        if (strcmp(all[i].name, name) == 0) {
            return all[i].handle;
        }
    }
    return NULL;
}

uint64_t ktax_register_read(struct qemu_plugin_register *handle)
{
    uint64_t value = 0;

    bytes = bytes ? bytes : g_byte_array_new();
    g_byte_array_set_size(bytes, 0);
    if (handle && qemu_plugin_read_register(handle, bytes) == sizeof(value)) {
        memcpy(&value, bytes->data, sizeof(value));
    }
    return value;
}
