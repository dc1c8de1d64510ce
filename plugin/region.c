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

struct bucket {
    uint64_t insns[KTAX_SLOTS];
    uint64_t reps[KTAX_SLOTS];
    uint64_t waits[KTAX_SLOTS];
    uint64_t transfers[KTAX_SLOTS];
};

struct ktax_region ktax_regions[KTAX_REGIONS];
int ktax_region_count;
bool ktax_regions_full;

static struct bucket buckets[CONTEXT_COUNT + KTAX_CPUS]; /* and CONTEXT_PENDING of each vCPU */
static uint64_t idles[KTAX_SLOTS];
static struct bucket seen;                       /* the running counts at the last flush */
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
        move(to->insns, seen.insns, ktax_counters->insns);
        move(to->reps, seen.reps, ktax_reps);
    }
}

void ktax_region_wait(enum ktax_context context, int slot, uint64_t n)
{
    if (is_open) {
        bucket_of(context)->waits[slot] += n;
    }
}

void ktax_region_transfer(enum ktax_context context, int slot)
{
    bucket_of(context)->transfers[slot]++;
}

void ktax_region_idle(int slot, uint64_t n)
{
    idles[slot] += n;
}

static uint64_t total(void)
{
    return ktax_one_cpu() ? ktax_counters->total : ktax_cpus_total_of_all();
}

static void settle(uint64_t *to, uint64_t *pending)
{
    for (int i = 0; i < ktax_slots; i++) {
        to[i] += pending[i];
        pending[i] = 0;
    }
}

void ktax_settle(enum ktax_context context)
{
    struct bucket *pending = bucket_of(CONTEXT_PENDING);

    if (is_open) {
        settle(buckets[context].insns, pending->insns);
        settle(buckets[context].reps, pending->reps);
        settle(buckets[context].waits, pending->waits);
        settle(buckets[context].transfers, pending->transfers);
    }
}

void ktax_region_begin(void)
{
    size_t size = (size_t)ktax_slots * sizeof(uint64_t);

    for (int i = 0; i < CONTEXT_COUNT + ktax_cpu_count; i++) {
        memset(buckets[i].insns, 0, size);
        memset(buckets[i].reps, 0, size);
        memset(buckets[i].waits, 0, size);
        memset(buckets[i].transfers, 0, size);
    }
    memset(idles, 0, size);
    memcpy(seen.insns, ktax_counters->insns, size);
    memcpy(seen.reps, ktax_reps, size);
    ktax_coherence_begin();
    total_at_begin = total();
    is_open = true;
}

static bool keep(struct ktax_region *region)
{
    size_t slots = (size_t)ktax_slots;
    size_t size = slots * sizeof(uint64_t);

    region->total = total() - total_at_begin;
    region->slots = ktax_slots;
    region->insns = malloc(size * CONTEXT_COUNT);
    region->reps = malloc(size * CONTEXT_COUNT);
    region->waits = malloc(size * CONTEXT_COUNT);
    region->transfers = malloc(size * CONTEXT_COUNT);
    region->idles = malloc(size);
    if (!region->insns || !region->reps || !region->waits || !region->transfers ||
        !region->idles || !ktax_coherence_end(&region->lines)) {
        return false;
    }
    ktax_slices_end(&region->parallel);
    memcpy(region->idles, idles, size);
    for (size_t i = 0; i < CONTEXT_COUNT; i++) {
        memcpy(region->insns + i * slots, buckets[i].insns, size);
        memcpy(region->reps + i * slots, buckets[i].reps, size);
        memcpy(region->waits + i * slots, buckets[i].waits, size);
        memcpy(region->transfers + i * slots, buckets[i].transfers, size);
    }
    return true;
}

void ktax_region_end(void)
{
    if (!is_open) {
        return;
    }
    is_open = false;
    if (ktax_region_count == KTAX_REGIONS || !keep(&ktax_regions[ktax_region_count])) {
        ktax_regions_full = true;
        return;
    }
    ktax_region_count++;
}
