/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "caches.h"

#include <stdlib.h>

bool ktax_cache_make(struct ktax_cache *cache, uint32_t sets, uint32_t ways)
{
    cache->sets = sets;
    cache->ways = ways;
    cache->lines = calloc((size_t)sets * ways, sizeof(*cache->lines));
    return cache->lines != NULL;
}

bool ktax_cache_search(const struct ktax_cache *cache, uint64_t *set, uint64_t line)
{
    uint64_t carried = set[0];
    bool is_there = false;

    set[0] = line + 1;
    for (uint32_t way = 1; way < cache->ways && !is_there; way++) {
        uint64_t behind = set[way];
        set[way] = carried;
        carried = behind;
        is_there = behind == line + 1;
    }
    return is_there;
}
