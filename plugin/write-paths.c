/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "write-paths.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "costly.h"

static const struct ktax_path *paths;
static uint32_t count;
static uint32_t *order; /* sorted by parent, then by name */
static uint32_t *first; /* of a path: where its children begin in that */
static bool *is_used;   /* in the context that is written */

static bool is_function(const struct ktax_path *path)
{
    return path->slot < PATH_COSTLY;
}

static const char *name_of(const struct ktax_path *path)
{
    switch (path->slot) {
    case PATH_WAIT:
        return "wait";
    case PATH_IDLE:
        return "idle";
    default:
        return is_function(path) ? ktax_slot_name(path->slot)
                                 : ktax_costly_name(path->slot - PATH_COSTLY);
    }
}

/* What is counted in a place comes before the functions that it calls. */
static int by_parent(const void *a, const void *b)
{
    const struct ktax_path *one = &paths[*(const uint32_t *)a];
    const struct ktax_path *other = &paths[*(const uint32_t *)b];

    if (one->parent != other->parent) {
        return one->parent < other->parent ? -1 : 1;
    }
    int kinds = is_function(one) - is_function(other);
    int names = strcmp(name_of(one), name_of(other));
    return kinds ? kinds : names ? names : one->slot - other->slot;
}

/* A path comes behind its parent. */
static void mark_used(int context)
{
    memset(is_used, 0, count * sizeof(*is_used));
    for (uint32_t i = count; i-- > 0;) {
        const struct ktax_path_counts *counts = &paths[i].counts[context];
        if (counts->insns || counts->reps || counts->calls) {
            is_used[i] = true;
        }
        if (is_used[i] && i > 0) {
            is_used[paths[i].parent] = true;
        }
    }
}

static void write_path(FILE *file, const char *context, unsigned depth, const char *name,
                       const struct ktax_path_counts *counts)
{
    fprintf(file, "path\t%s\t%u\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\n", context, depth,
            counts->insns, counts->reps, counts->calls, name);
}

static void write_counted(FILE *file, const struct ktax_path *path, uint64_t n)
{
    if (path->slot == PATH_WAIT || path->slot == PATH_IDLE) {
        fprintf(file, "path-%s\t%" PRIu64 "\n", name_of(path), n);
    } else {
        fprintf(file, "path-costly\t%" PRIu64 "\t%s\n", n, name_of(path));
    }
}

static void write_below(FILE *file, uint32_t parent, unsigned depth, int context,
                        const char *name)
{
    for (uint32_t i = first[parent]; i < count - 1 && paths[order[i]].parent == parent; i++) {
        const struct ktax_path *path = &paths[order[i]];
        if (is_used[order[i]] && !is_function(path)) {
            write_counted(file, path, path->counts[context].calls);
        } else if (is_used[order[i]]) {
            write_path(file, name, depth, name_of(path), &path->counts[context]);
            write_below(file, order[i], depth + 1, context, name);
        }
    }
}

static bool sort(void)
{
    order = calloc(count, sizeof(*order));
    first = calloc(count, sizeof(*first));
    is_used = calloc(count, sizeof(*is_used));
    if (!order || !first || !is_used) {
        return false;
    }
    for (uint32_t i = 0; i + 1 < count; i++) {
        order[i] = i + 1;
    }
    qsort(order, count - 1, sizeof(*order), by_parent);
    for (uint32_t i = count - 1; i-- > 0;) {
        first[paths[order[i]].parent] = i;
    }
    return true;
}

/* Whether something is counted where nothing has been called yet. */
static bool is_counted_at_root(void)
{
    for (uint32_t i = first[PATH_ROOT]; i + 1 < count; i++) {
        const struct ktax_path *path = &paths[order[i]];
        if (path->parent != PATH_ROOT || is_function(path)) {
            return false;
        }
        if (is_used[order[i]]) {
            return true;
        }
    }
    return false;
}

bool ktax_write_paths(FILE *file, const struct ktax_region *region, const char *const *contexts)
{
    paths = region->paths;
    count = region->path_count;
    bool is_sorted = count == 0 || sort();

    for (int context = 0; is_sorted && count > 0 && context < CONTEXT_COUNT; context++) {
        const struct ktax_path_counts *unknown = &paths[PATH_ROOT].counts[context];
        mark_used(context);
        if (unknown->insns || unknown->reps || is_counted_at_root()) {
            write_path(file, contexts[context], 0, "[unknown]", unknown);
        }
        write_below(file, PATH_ROOT, 0, context, contexts[context]);
    }
    free(order);
    free(first);
    free(is_used);
    return is_sorted;
}
