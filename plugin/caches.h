/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A cache of lines by sets, of which each forgets the line that was used least recently. */
#ifndef KTAX_CACHES_H
#define KTAX_CACHES_H

#include <stdbool.h>
#include <stdint.h>

struct ktax_cache {
    uint64_t sets; /* a power of two; 0: there is no such cache */
    uint32_t ways;
    uint64_t *lines; /* of each set the last used first; 0: none */
};

/* False: there is not enough memory. */
bool ktax_cache_make(struct ktax_cache *cache, uint32_t sets, uint32_t ways);

/* The same of a line that was not the last used one of its set. */
bool ktax_cache_search(const struct ktax_cache *cache, uint64_t *set, uint64_t line);

static inline uint64_t *ktax_cache_set(const struct ktax_cache *cache, uint64_t line)
{
    return cache->lines + (line & (cache->sets - 1)) * cache->ways;
}

/* Uses a line. Was it there? It is now. */
static inline bool ktax_cache_use(const struct ktax_cache *cache, uint64_t line)
{
    uint64_t *set = ktax_cache_set(cache, line);

    return set[0] == line + 1 || ktax_cache_search(cache, set, line);
}

#endif
