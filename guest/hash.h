/* SPDX-License-Identifier: MIT */
/* FNV-1a. */
#ifndef KTAX_HASH_H
#define KTAX_HASH_H

#include <stddef.h>
#include <stdint.h>

static const uint64_t HASH_START = 0xcbf29ce484222325;

static inline uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
	for (const unsigned char *byte = data; size--; byte++)
		hash = (hash ^ *byte) * 0x100000001b3;
	return hash;
}

#endif
