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

/* What QEMU returns is a size until API 5, and a boolean from 6 on. */
bool ktax_register_get(struct qemu_plugin_register *handle, uint64_t *value)
{
    if (!handle) {
        return false;
    }
    bytes = bytes ? bytes : g_byte_array_new();
    g_byte_array_set_size(bytes, 0);
    qemu_plugin_read_register(handle, bytes);
    bool is_there = bytes->len == sizeof(*value);
    if (is_there) {
        memcpy(value, bytes->data, sizeof(*value));
    }
    return is_there;
}

uint64_t ktax_register_read(struct qemu_plugin_register *handle)
{
    uint64_t value = 0;

    return ktax_register_get(handle, &value) ? value : 0;
}
