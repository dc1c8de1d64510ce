/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "write-costly.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "costly.h"

static int by_function(const struct ktax_costly_site *one, const struct ktax_costly_site *other)
{
    int kinds = one->kind - other->kind;

    return kinds ? kinds : strcmp(ktax_slot_name(one->slot), ktax_slot_name(other->slot));
}

static int by_register(const void *a, const void *b)
{
    const struct ktax_costly_site *one = *(struct ktax_costly_site *const *)a;
    const struct ktax_costly_site *other = *(struct ktax_costly_site *const *)b;
    int functions = by_function(one, other);

    return functions ? functions : (one->msr > other->msr) - (one->msr < other->msr);
}

static void write_site(FILE *file, const struct ktax_costly_site *site, uint64_t count,
                       const char *context)
{
    fprintf(file, "costly\t%s\t%s\t%" PRIu64 "\t%s\n", context, ktax_costly_name(site->kind),
            count, ktax_slot_name(site->slot));
}

static void write_register(FILE *file, const struct ktax_costly_site *site, uint64_t count,
                           const char *context)
{
    if (site->msr != 0) {
        fprintf(file, "msr\t%s\t%s\t%" PRIx64 "\t%" PRIu64 "\t%s\n", context,
                ktax_costly_name(site->kind), site->msr - 1, count, ktax_slot_name(site->slot));
    }
}

/* Functions of the same name (static ones) become one line. */
static void write_context(FILE *file, struct ktax_costly_site *const *sites, int count,
                          int context, const char *name)
{
    uint64_t sum = 0;
    uint64_t of_register = 0;

    for (int i = 0; i < count; i++) {
        sum += sites[i]->counts[context];
        of_register += sites[i]->counts[context];
        bool is_last = i + 1 == count;
        if (of_register > 0 && (is_last || by_register(&sites[i], &sites[i + 1]) != 0)) {
            write_register(file, sites[i], of_register, name);
            of_register = 0;
        }
        if (sum > 0 && (is_last || by_function(sites[i], sites[i + 1]) != 0)) {
            write_site(file, sites[i], sum, name);
            sum = 0;
        }
    }
}

bool ktax_write_costly(FILE *file, const struct ktax_region *region,
                           const char *const *contexts)
{
    int count = region->costly_count;
    struct ktax_costly_site **sites = calloc((size_t)count + 1, sizeof(*sites));

    if (!sites) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        sites[i] = &region->costly[i];
    }
    qsort(sites, (size_t)count, sizeof(*sites), by_register);
    for (int context = 0; context < CONTEXT_COUNT; context++) {
        write_context(file, sites, count, context, contexts[context]);
    }
    free(sites);
    return true;
}
