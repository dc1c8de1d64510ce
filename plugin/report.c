/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writes the profile of docs/wire.md. */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "context.h"
#include "counters.h"
#include "cpus.h"
#include "machine.h"
#include "stacks.h"
#include "watch.h"

/* The lines of a profile that say which costly instructions its functions executed. */

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

/* Those of a region. False: there is not enough memory. */
static bool write_costly(FILE *file, const struct ktax_region *region,
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

/* The lines of a profile that say from where functions were called. */

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

/* Those that a region executed. False: there is not enough memory. */
static bool write_paths(FILE *file, const struct ktax_region *region, const char *const *contexts)
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

struct row {
    const char *name;
    uint64_t counts[COLUMN_COUNT];
};

static const char *const context_names[CONTEXT_COUNT] = {
    "process", "interrupt", "kthread", "awaited",
};
static const char *const column_names[COLUMN_COUNT] = { KTAX_COLUMN_NAMES };
static FILE *file;
static const char *file_path;
static bool is_over;

/* Created at the start, so that a run does not begin if its profile cannot be written. */
bool ktax_report_open(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    file = fd < 0 ? NULL : fdopen(fd, "w");
    file_path = strdup(path);
    if (!file || !file_path) {
        fprintf(stderr, "ktax plugin: cannot create profile %s: %s; give out=FILE that is new\n",
                path, strerror(errno));
        return false;
    }
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

/* Without what only comes beside another column. */
static bool is_row(const struct row *row)
{
    bool has_counts = row->counts[COLUMN_INSTRUCTIONS] || row->counts[COLUMN_REP_ITERATIONS];

    for (int column = COLUMN_TRANSFERS; column < ktax_columns; column++) {
        has_counts = has_counts || row->counts[column];
    }
    return has_counts;
}

/* The rows of one context, sorted; functions of the same name (static ones) become one row. */
static int make_rows(struct row *rows, const struct ktax_region *region, int context)
{
    int count = 0;
    int merged = 0;

    for (int slot = 0; slot < region->slots; slot++) {
        struct row row = { .name = ktax_slot_name(slot) };
        for (int column = 0; column < ktax_columns; column++) {
            row.counts[column] = region->counts[column][context * region->slots + slot];
        }
        if (is_row(&row)) {
            rows[count++] = row;
        }
    }
    qsort(rows, (size_t)count, sizeof(*rows), by_name);
    for (int i = 0; i < count; i++) {
        if (merged > 0 && strcmp(rows[merged - 1].name, rows[i].name) == 0) {
            for (int column = 0; column < ktax_columns; column++) {
                rows[merged - 1].counts[column] += rows[i].counts[column];
            }
        } else {
            rows[merged++] = rows[i];
        }
    }
    return merged;
}

/* One of `wait`, `transfer`. */
static void write_count(const char *what, int context, uint64_t n, const char *name)
{
    if (n != 0) {
        fprintf(file, "%s\t%s\t%" PRIu64 "\t%s\n", what, context_names[context], n, name);
    }
}

static void write_row(const struct row *row, int context)
{
    const uint64_t *counts = row->counts;

    fprintf(file, "fn\t%s\t%" PRIu64 "\t%" PRIu64 "\t%s\n", context_names[context],
            counts[COLUMN_INSTRUCTIONS], counts[COLUMN_REP_ITERATIONS], row->name);
    write_count("wait", context, counts[COLUMN_WAIT], row->name);
    write_count("transfer", context, counts[COLUMN_TRANSFERS], row->name);
    for (int column = COLUMN_MODEL; column < ktax_columns; column++) {
        if (counts[column]) {
            fprintf(file, "modelled\t%s\t%s\t%" PRIu64 "\t%s\n", context_names[context],
                    column_names[column], counts[column], row->name);
        }
    }
}

static void write_parallel(const struct ktax_region *region)
{
    const struct ktax_parallel *parallel = &region->parallel;

    for (int slot = 0; slot < region->slots; slot++) {
        uint64_t idle = region->counts[COLUMN_IDLE][CONTEXT_KTHREAD * region->slots + slot];
        if (idle != 0) {
            fprintf(file, "idle\t%" PRIu64 "\t%s\n", idle, ktax_slot_name(slot));
        }
    }
    for (int i = 0; i < ktax_cpu_count; i++) {
        const struct ktax_time *time = &parallel->times[i];
        fprintf(file, "cpu\t%d\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n", i,
                time->work, time->wait, time->idle, time->uneven);
    }
    fprintf(file, "makespan\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n", parallel->makespan,
            parallel->rounds, parallel->kicks);
    fprintf(file, "trace\t%016" PRIx64 "\n", parallel->trace);
}

static void write_lines(const struct ktax_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        const struct ktax_line *line = &lines->lines[i];
        fprintf(file, "line\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIx64 "\t%s\n", line->kind,
                line->count, line->lines, line->offset, line->name);
    }
    fprintf(file, "transfers\t%" PRIu64 "\n", lines->transfers);
}

static bool write_region(const struct ktax_region *region, int number)
{
    struct row *rows = malloc((size_t)region->slots * sizeof(*rows));

    if (!rows) {
        return false;
    }
    fprintf(file, "region\t%d\ntotal\t%" PRIu64 "\n", number, region->total);
    for (int context = 0; context < CONTEXT_COUNT; context++) {
        int count = make_rows(rows, region, context);
        for (int i = 0; i < count; i++) {
            write_row(&rows[i], context);
        }
    }
    if (!ktax_one_cpu()) {
        write_parallel(region);
    }
    if (ktax_coherence) {
        write_lines(&region->lines);
    }
    free(rows);
    return write_costly(file, region, context_names) &&
           write_paths(file, region, context_names);
}

/* A program of the user's is within a region, and may have one of its own in that. */
static void write_markers(void)
{
    if (ktax_begins != ktax_ends || ktax_begins > 2) {
        fprintf(file, "markers\t%d\t%d\n", ktax_begins, ktax_ends);
    }
}

/* Of those that have come so far. */
static void write_places(void)
{
    static const char *const doing[] = { "", "work", "wait", "idle" };

    fprintf(file, "limit\t%" PRIu64 "\n", ktax_deadline);
    for (int i = 0; i < ktax_cpu_count; i++) {
        const struct ktax_place *place = &ktax_places[i];
        if (place->doing != DOING_UNKNOWN) {
            fprintf(file, "at\t%d\t%s\t%s\n", i, doing[place->doing],
                    ktax_slot_name(place->slot));
        }
    }
}

static void write_split(const char *what, const char *reason)
{
    if (reason) {
        fprintf(file, "split\t%s\t%s\n", what, reason);
    }
}

void ktax_report_write(void)
{
    bool complete = true;

    fprintf(file, "ktax-profile\t1\napi\t%d\n", qemu_plugin_version);
    write_split("kthread", ktax_kthread_split_failed());
    write_split("interrupt", ktax_interrupt_split_failed());
    write_split("function", ktax_slots_full ? "more functions than slots" : NULL);
    write_split("path", ktax_paths_full ? "more than 1048575 paths, or one of more than 999 calls"
                                        : ktax_stacks_failed());
    write_split("costly", ktax_costly_split_failed());
    write_split("model", ktax_machine_split_failed());
    write_split("region", ktax_regions_full ? "more regions than fit" : NULL);
    if (is_over) {
        write_places();
    } else {
        write_markers();
    }
    for (int i = 0; i < ktax_region_count && complete; i++) {
        complete = write_region(&ktax_regions[i], i + 1);
    }
    if (complete) {
        fprintf(file, "end\n");
    }
    complete = complete && !ferror(file);
    if (fclose(file) != 0 || !complete) {
        fprintf(stderr, "ktax plugin: profile %s is incomplete: %s; make room and run again\n",
                file_path, strerror(errno));
    }
}

/* _exit: does not wait for QEMU's threads. */
void ktax_report_over(void)
{
    is_over = true;
    ktax_report_write();
    _exit(KTAX_OVER_STATUS);
}
