/* SPDX-License-Identifier: MIT */
/* linear-hash.c: a table in memory that grows by one bucket at a time. */
#ifndef LINEAR_HASH_H
#define LINEAR_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash_slot {
	char key[16]; /* padded with zeros */
	uint64_t value;
};

enum { HASH_SLOTS = 10 };

/* A bucket is a chain of these. */
struct hash_page {
	struct hash_page *next;
	uint64_t used;
	struct hash_slot slot[HASH_SLOTS];
};

struct hash_table {
	struct hash_page *bucket, *overflow, *free;
	uint64_t buckets, mask, keys;
};

uint32_t hash_of(const char key[16]);
void hash_make(struct hash_table *t, uint64_t keys); /* it can have so many */
uint64_t *hash_value(struct hash_table *t, const char key[16]); /* 0 where the key is new */

#endif
