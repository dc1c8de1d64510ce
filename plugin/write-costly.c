/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "write-costly.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "costly.h"

static int by_name(const void *a, const void *b)
{
    const struct ktax_costly_site *one = *(struct ktax_costly_site *const *)a;
    const struct ktax_costly_site *other = *(struct ktax_costly_site *const *)b;
    int kinds = one->kind - other->kind;

    return kinds ? kinds : strcmp(ktax_slot_name(one->slot), ktax_slot_name(other->slot));
}

/* Functions of the same name (static ones) become one line. */
static void write_context(FILE *file, struct ktax_costly_site *const *sites, int count,
                          int context, const char *name)
{
    uint64_t sum = 0;

    for (int i = 0; i < count; i++) {
        sum += sites[i]->counts[context];
        bool is_last = i + 1 == count || by_name(&sites[i], &sites[i + 1]) != 0;
        if (is_last && sum > 0) {
            fprintf(file, "costly\t%s\t%s\t%" PRIu64 "\t%s\n", name,
                    ktax_costly_name(sites[i]->kind), sum,
                    ktax_slot_name(sites[i]->slot));
        }
        sum = is_last ? 0 : sum;
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
    qsort(sites, (size_t)count, sizeof(*sites), by_name);
    for (int context = 0; context < CONTEXT_COUNT; context++) {
        write_context(file, sites, count, context, contexts[context]);
    }
    free(sites);
    return true;
}
