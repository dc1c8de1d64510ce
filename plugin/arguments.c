/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coherence.h"
#include "context.h"
#include "costly.h"
#include "deadline.h"
#include "draw.h"
#include "machine.h"
#include "memory.h"
#include "paths.h"
#include "report.h"
#include "slices.h"
#include "symbols.h"
#include "user.h"

bool ktax_refuse(const char *why)
{
    fprintf(stderr, "ktax plugin: %s\n", why);
    return false;
}

/* Of `name=value` the value; NULL of another argument. */
static const char *value_of(const char *argument, const char *name)
{
    size_t length = strlen(name);

    return strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1
                                                                           : NULL;
}

static struct {
    const char *out, *symbols, *archive, *functions, *variables, *machine, *draw;
} files;

static bool read_argument(const char *argument)
{
    const struct { const char *name; const char **file; } named[] = {
        { "out", &files.out }, { "symbols", &files.symbols }, { "archive", &files.archive },
        { "functions", &files.functions }, { "coherence", &files.variables },
        { "machine", &files.machine }, { "draw", &files.draw },
    };
    const struct { const char *name; uint64_t *number; } numbers[] = {
        { "quantum", &ktax_quantum }, { "contended", &ktax_contended_quantum },
        { "jitter", &ktax_jitter }, { "limit", &ktax_deadline },
    };

    for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++) {
        const char *value = value_of(argument, named[i].name);
        if (value) {
            *named[i].file = value;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        const char *value = value_of(argument, numbers[i].name);
        if (value) {
            *numbers[i].number = strtoull(value, NULL, 10);
            return true;
        }
    }
    bool is_boot = strcmp(argument, "region=boot") == 0;
    bool is_pathless = strcmp(argument, "paths=no") == 0;
    bool is_costless = strcmp(argument, "costly=no") == 0;
    ktax_context_of_boot = ktax_context_of_boot || is_boot;
    ktax_paths_followed = ktax_paths_followed && !is_boot && !is_pathless;
    ktax_costly_counted = ktax_costly_counted && !is_costless;
    return is_boot || is_pathless || is_costless;
}

bool ktax_arguments_read(int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (!read_argument(argv[i])) {
            return ktax_refuse("has an unknown argument; it takes symbols=FILE, out=FILE, "
                               "region=boot, archive=FILE, functions=FILE, quantum=N, "
                               "contended=N, jitter=SEED, limit=N, coherence=FILE, machine=FILE, "
                               "paths=no, costly=no, draw=FILE");
        }
    }
    if (!files.out) {
        return ktax_refuse("needs the argument out=FILE, the profile to write");
    }
    if (files.draw && !ktax_draw_open(files.draw)) {
        return ktax_refuse("cannot draw; give draw=FILE that is new, and QEMU 10.0 or newer");
    }
    bool has_programs = files.archive && files.functions;
    ktax_coherence = files.variables != NULL;
    return (!has_programs || ktax_user_load(files.archive, files.functions)) &&
           (!files.variables || ktax_memory_load(files.variables)) &&
           (!files.machine || ktax_machine_load(files.machine)) &&
           (!files.symbols || ktax_symbols_load(files.symbols)) && ktax_report_open(files.out);
}
