/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "caches.h"

#include <stdlib.h>
#include <string.h>

bool ktax_cache_make(struct ktax_cache *cache, uint32_t sets, uint32_t ways)
{
    cache->sets = sets;
    cache->ways = ways;
    cache->lines = calloc((size_t)sets * ways, sizeof(*cache->lines));
    return cache->lines != NULL;
}

bool ktax_cache_search(const struct ktax_cache *cache, uint64_t *set, uint64_t line)
{
    uint32_t way = 1;

    while (way < cache->ways && set[way] != line + 1) {
        way++;
    }
    bool is_there = way < cache->ways;
    memmove(set + 1, set, (is_there ? way : cache->ways - 1) * sizeof(*set));
    set[0] = line + 1;
    return is_there;
}
