/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The generated code adds at fixed addresses and knows no contexts. So at each change of context,
 * the counts since the last change are added to the bucket of the context that ends. That is a pass
 * over the slots in use, some thousand of them, twice for an interrupt.
 */
#include "region.h"

#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "costly.h"
#include "paths.h"

struct bucket {
    uint64_t counts[COLUMN_COUNT][KTAX_SLOTS];
};

struct ktax_region ktax_regions[KTAX_REGIONS];
int ktax_region_count;
int ktax_columns = COLUMN_MODEL;
bool ktax_regions_full;

static struct bucket buckets[CONTEXT_COUNT + KTAX_CPUS]; /* and CONTEXT_PENDING of each vCPU */
static uint64_t seen_insns[KTAX_SLOTS]; /* the running counts at the last flush */
static uint64_t seen_reps[KTAX_SLOTS];
static uint64_t seen_accesses[KTAX_SLOTS];
static uint64_t seen_branches[KTAX_SLOTS];
static uint64_t total_at_begin;
static bool is_open;

static void move(uint64_t *to, uint64_t *from, const uint64_t *now)
{
    for (int i = 0; i < ktax_slots; i++) {
        to[i] += now[i] - from[i];
        from[i] = now[i];
    }
}

static struct bucket *bucket_of(enum ktax_context context)
{
    return &buckets[context == CONTEXT_PENDING ? context + (ktax_cpu - ktax_cpus) : context];
}

void ktax_flush(enum ktax_context context)
{
    struct bucket *to = bucket_of(context);

    if (is_open) {
        move(to->counts[COLUMN_INSTRUCTIONS], seen_insns, ktax_counters->insns);
        move(to->counts[COLUMN_REP_ITERATIONS], seen_reps, ktax_reps);
    }
    if (is_open && ktax_columns > COLUMN_MODEL) {
        move(to->counts[COLUMN_L1D_ACCESSES], seen_accesses, ktax_accesses);
        move(to->counts[COLUMN_BRANCHES], seen_branches, ktax_branches);
    }
}

void ktax_region_add(enum ktax_column column, enum ktax_context context, int slot, uint64_t n)
{
    if (is_open) {
        bucket_of(context)->counts[column][slot] += n;
    }
}

void ktax_settle(enum ktax_context context)
{
    struct bucket *pending = bucket_of(CONTEXT_PENDING);

    for (int column = 0; is_open && column < ktax_columns; column++) {
        for (int i = 0; i < ktax_slots; i++) {
            buckets[context].counts[column][i] += pending->counts[column][i];
            pending->counts[column][i] = 0;
        }
    }
    ktax_costly_settle(context);
}

void ktax_region_begin(void)
{
    size_t size = (size_t)ktax_slots * sizeof(uint64_t);

    for (int i = 0; i < CONTEXT_COUNT + ktax_cpu_count; i++) {
        for (int column = 0; column < ktax_columns; column++) {
            memset(buckets[i].counts[column], 0, size);
        }
    }
    memcpy(seen_insns, ktax_counters->insns, size);
    memcpy(seen_reps, ktax_reps, size);
    memcpy(seen_accesses, ktax_accesses, size);
    memcpy(seen_branches, ktax_branches, size);
    ktax_coherence_begin();
    ktax_costly_clear();
    total_at_begin = ktax_total();
    is_open = true;
}

static bool keep_column(struct ktax_region *region, int column)
{
    size_t slots = (size_t)ktax_slots;
    uint64_t *to = malloc(slots * sizeof(uint64_t) * CONTEXT_COUNT);

    for (size_t i = 0; to && i < CONTEXT_COUNT; i++) {
        memcpy(to + i * slots, buckets[i].counts[column], slots * sizeof(uint64_t));
    }
    region->counts[column] = to;
    return to != NULL;
}

static bool keep(struct ktax_region *region, const struct ktax_parallel *parallel)
{
    region->total = ktax_total() - total_at_begin;
    region->slots = ktax_slots;
    region->parallel = *parallel;
    for (int column = 0; column < ktax_columns; column++) {
        if (!keep_column(region, column)) {
            return false;
        }
    }
    if (!ktax_coherence_end(&region->lines) || !ktax_paths_take(region) ||
        !ktax_costly_take(region)) {
        return false;
    }
    return true;
}

void ktax_region_end(const struct ktax_parallel *parallel)
{
    if (!is_open) {
        return;
    }
    is_open = false;
    if (ktax_region_count == KTAX_REGIONS || !keep(&ktax_regions[ktax_region_count], parallel)) {
        ktax_regions_full = true;
        return;
    }
    ktax_region_count++;
}
