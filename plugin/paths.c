/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "paths.h"

#include <stdlib.h>
#include <string.h>

#include "cpus.h"

enum {
    TABLE = 2 * KTAX_PATHS,
    DEEPEST = 1000,
};

struct pending {
    uint32_t path;
    struct ktax_path_counts counts;
};

/* What a task of a vCPU did that may yet enter user mode. */
struct list {
    struct pending *all;
    uint32_t count;
    uint32_t room;
    uint32_t *places; /* by path: where it is in the list, from 1 */
    uint32_t places_room;
};

struct ktax_path ktax_paths[KTAX_PATHS];
uint32_t ktax_path_count = 1;
bool ktax_paths_full;
bool ktax_paths_followed = true;

static uint32_t table[TABLE];
static struct list lists[KTAX_CPUS];

/* Makes room for one more; what is new is zero. */
static bool grow(void **all, uint32_t *room_of, uint32_t count, size_t size)
{
    if (count < *room_of) {
        return true;
    }
    uint32_t wanted = *room_of ? *room_of : 1024;
    while (wanted <= count) {
        wanted *= 2;
    }
    char *more = realloc(*all, (size_t)wanted * size);
    if (!more) {
        return false;
    }
    memset(more + (size_t)*room_of * size, 0, (size_t)(wanted - *room_of) * size);
    *all = more;
    *room_of = wanted;
    return true;
}

static uint32_t hash(uint32_t parent, int slot)
{
    uint64_t key = (uint64_t)parent << 16 ^ (uint64_t)slot;

    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 43);
}

static uint32_t find(uint32_t parent, int slot)
{
    uint32_t i = hash(parent, slot);

    for (; table[i] != 0; i = (i + 1) % TABLE) {
        const struct ktax_path *known = &ktax_paths[table[i]];
        if (known->parent == parent && known->slot == slot) {
            return table[i];
        }
    }
    if (ktax_path_count == KTAX_PATHS || ktax_paths[parent].depth == DEEPEST) {
        ktax_paths_full = true;
        return parent;
    }
    ktax_paths[ktax_path_count] = (struct ktax_path){
        .parent = parent,
        .depth = ktax_paths[parent].depth + 1,
        .slot = slot,
    };
    table[i] = ktax_path_count;
    return ktax_path_count++;
}

uint32_t ktax_paths_find(uint32_t parent, int slot)
{
    uint32_t path = find(parent, slot);

    ktax_paths[parent].lately[(unsigned)slot % KTAX_PATH_CHILDREN] = path;
    return path;
}

struct ktax_path_counts *ktax_paths_pending(uint32_t path)
{
    static struct ktax_path_counts nowhere;
    struct list *list = &lists[ktax_cpu - ktax_cpus];

    if (!grow((void **)&list->places, &list->places_room, path, sizeof(*list->places)) ||
        !grow((void **)&list->all, &list->room, list->count, sizeof(*list->all))) {
        ktax_paths_full = true;
        return &nowhere;
    }
    if (list->places[path] == 0) {
        list->all[list->count++] = (struct pending){ .path = path };
        list->places[path] = list->count;
    }
    return &list->all[list->places[path] - 1].counts;
}

static void forget(struct list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        list->places[list->all[i].path] = 0;
    }
    list->count = 0;
}

void ktax_paths_settle(enum ktax_context context)
{
    struct list *list = &lists[ktax_cpu - ktax_cpus];

    for (uint32_t i = 0; i < list->count; i++) {
        struct ktax_path_counts *to = &ktax_paths[list->all[i].path].counts[context];
        const struct ktax_path_counts *more = &list->all[i].counts;
        to->insns += more->insns;
        to->reps += more->reps;
        to->calls += more->calls;
    }
    forget(list);
}

void ktax_paths_clear(void)
{
    for (uint32_t i = 0; i < ktax_path_count; i++) {
        memset(ktax_paths[i].counts, 0, sizeof(ktax_paths[i].counts));
    }
    for (int i = 0; i < ktax_cpu_count; i++) {
        forget(&lists[i]);
    }
}

bool ktax_paths_take(struct ktax_region *to)
{
    size_t size = ktax_path_count * sizeof(*ktax_paths);

    if (!ktax_paths_followed) {
        return true;
    }
    to->paths = aligned_alloc(_Alignof(struct ktax_path), size);
    to->path_count = to->paths ? ktax_path_count : 0;
    if (to->paths) {
        memcpy(to->paths, ktax_paths, size);
    }
    return to->paths;
}
