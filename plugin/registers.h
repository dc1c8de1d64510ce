/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The registers of the vCPU that executes, for callbacks that may read them. */
#ifndef KTAX_REGISTERS_H
#define KTAX_REGISTERS_H

#include "qemu_api.h"

/* Does this QEMU let registers be read? */
bool ktax_registers_are_there(void);

/* By QEMU's name; NULL if there is none. Call it when a vCPU exists. */
struct qemu_plugin_register *ktax_register_find(const char *name);

/* False: `handle` is NULL, or has no 64 bits. */
bool ktax_register_get(struct qemu_plugin_register *handle, uint64_t *value);

/* 0 then. */
uint64_t ktax_register_read(struct qemu_plugin_register *handle);

#endif
