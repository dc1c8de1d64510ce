/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "context.h"
#include "counters.h"
#include "cpus.h"
#include "deadline.h"
#include "machine.h"
#include "paths.h"
#include "region.h"
#include "stacks.h"
#include "costly.h"
#include "watch.h"
#include "write-costly.h"
#include "write-paths.h"

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
    bool is = row->counts[COLUMN_INSTRUCTIONS] || row->counts[COLUMN_REP_ITERATIONS];

    for (int column = COLUMN_TRANSFERS; column < ktax_columns; column++) {
        is = is || row->counts[column];
    }
    return is;
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
    const struct ktax_parallel *of = &region->parallel;

    for (int slot = 0; slot < region->slots; slot++) {
        uint64_t idle = region->counts[COLUMN_IDLE][CONTEXT_KTHREAD * region->slots + slot];
        if (idle != 0) {
            fprintf(file, "idle\t%" PRIu64 "\t%s\n", idle, ktax_slot_name(slot));
        }
    }
    for (int i = 0; i < ktax_cpu_count; i++) {
        const struct ktax_time *time = &of->times[i];
        fprintf(file, "cpu\t%d\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n", i,
                time->work, time->wait, time->idle, time->uneven);
    }
    fprintf(file, "makespan\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n", of->makespan, of->rounds,
            of->kicks);
    fprintf(file, "trace\t%016" PRIx64 "\n", of->trace);
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
    return ktax_write_costly(file, region, context_names) &&
           ktax_write_paths(file, region, context_names);
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

/* What of QEMU would end in its own time ends with it. */
void ktax_report_over(void)
{
    is_over = true;
    ktax_report_write();
    _exit(KTAX_OVER_STATUS);
}
