/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads which machine is modelled: docs/wire.md. */
#include "machine.h"

#include <stdio.h>
#include <string.h>

#include "branches.h"
#include "region.h"
#include "tlbs.h"

enum { MOST_WAYS = 64, MOST_SETS = 1 << 20, MOST_TLB_SETS = 1 << 12 };

bool ktax_machine;

static bool is_size(uint32_t sets, uint32_t ways, uint32_t most)
{
    return sets > 0 && sets <= most && (sets & (sets - 1)) == 0 && ways > 0 &&
           ways <= MOST_WAYS;
}

static bool read_cache(const char *name, const uint32_t *numbers)
{
    static const char *const names[CACHE_COUNT] = { "l1i", "l1d", "l2", "llc" };

    for (int i = 0; i < CACHE_COUNT; i++) {
        if (strcmp(name, names[i]) == 0 && !ktax_caches[i].sets &&
            is_size(numbers[0], numbers[1], MOST_SETS)) {
            return ktax_cache_make(&ktax_caches[i], numbers[0], numbers[1]);
        }
    }
    return false;
}

static bool read_tlb(const char *name, const uint32_t *numbers)
{
    struct ktax_tlb_size size = { numbers[0], numbers[1], numbers[2], numbers[3] };

    if (!is_size(size.sets, size.ways, MOST_TLB_SETS) ||
        (size.large_sets && !is_size(size.large_sets, size.large_ways, MOST_TLB_SETS))) {
        return false;
    }
    if (strcmp(name, "itlb") == 0 || strcmp(name, "dtlb") == 0) {
        return ktax_tlb_first(name[0] == 'i' ? TLB_CODE : TLB_DATA, &size);
    }
    if (strcmp(name, "itlb2") == 0 || strcmp(name, "dtlb2") == 0) {
        return ktax_tlb_second(name[0] == 'i' ? TLB_CODE : TLB_DATA, &size);
    }
    return strcmp(name, "stlb") == 0 && ktax_tlb_shared(&size);
}

static bool read_branches(const uint32_t *numbers)
{
    struct ktax_branches_size size = { numbers[0], numbers[1], numbers[2] };

    return size.history <= size.table && size.table <= MOST_TABLE && size.returns > 0 &&
           size.returns <= MOST_RETURNS && ktax_branches_make(&size);
}

static bool read_line(const char *line)
{
    char name[16];
    uint32_t numbers[4];
    int found = sscanf(line, "%15s %u %u %u %u", name, &numbers[0], &numbers[1], &numbers[2],
                       &numbers[3]);

    if (found == 4 && strcmp(name, "branches") == 0) {
        return read_branches(numbers);
    }
    return (found == 3 && read_cache(name, numbers)) || (found == 5 && read_tlb(name, numbers));
}

bool ktax_machine_load(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[128];
    bool is_good = file != NULL;

    while (is_good && fgets(line, sizeof(line), file)) {
        is_good = read_line(line);
    }
    if (file) {
        fclose(file);
    }
    for (int i = 0; i < CACHE_LAST; i++) {
        is_good = is_good && ktax_caches[i].sets;
    }
    ktax_machine = is_good && ktax_tlbs_are_there() && ktax_branches_are_there();
    if (ktax_machine) {
        ktax_columns = COLUMN_COUNT;
    } else {
        fprintf(stderr, "ktax plugin: cannot model the machine of %s; give a file as docs/wire.md "
                        "has it, and memory\n", path);
    }
    return ktax_machine;
}
