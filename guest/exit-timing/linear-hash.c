/* SPDX-License-Identifier: MIT */
/*
 * Linear hashing: whenever a bucket has FILL keys on average, one more bucket is made, and takes
 * its keys from the one that had them so far. No step rebuilds the table.
 */
#include <string.h>

#include "ktax.h"
#include "linear-hash.h"

enum { FILL = 8 };

/* The hash of Fowler, Noll and Vo, which Berkeley DB has by default. */
uint32_t hash_of(const char key[16])
{
	uint32_t hash = 2166136261;

	for (size_t i = 0; i < 16 && key[i]; i++)
		hash = hash * 16777619 ^ (uint8_t)key[i];
	return hash;
}

void hash_make(struct hash_table *t, uint64_t keys)
{
	const uint64_t in_page = PAGE / sizeof(struct hash_page), buckets = keys / FILL + 1;

	/* twice as many more for chains: before its turn to split, a bucket has up to 2 * FILL keys */
	*t = (struct hash_table){ .bucket = (void *)pages(3 * buckets / in_page + 3), .buckets = 1 };
	t->overflow = t->bucket + buckets;
}

static struct hash_page *bucket_of(struct hash_table *t, const char *key)
{
	uint64_t n = hash_of(key) & t->mask;

	return t->bucket + (n < t->buckets ? n : n & t->mask >> 1);
}

static struct hash_page *page_with_room(struct hash_table *t, struct hash_page *p)
{
	for (; p->used == HASH_SLOTS; p = p->next) {
		if (p->next)
			continue;
		p->next = t->free ? t->free : t->overflow++;
		t->free = p->next->next;
		p->next->next = NULL;
	}
	return p;
}

static struct hash_slot *append(struct hash_table *t, const struct hash_slot *s)
{
	struct hash_page *p = page_with_room(t, bucket_of(t, s->key));

	p->slot[p->used] = *s;
	return &p->slot[p->used++];
}

static void split(struct hash_table *t)
{
	if (t->buckets > t->mask)
		t->mask = 2 * t->mask + 1;
	struct hash_page *from = t->bucket + (t->buckets++ & t->mask >> 1), old = *from, *p = &old;
	from->used = 0;
	from->next = NULL;
	while (p) {
		struct hash_page *next = p->next;
		for (uint64_t i = 0; i < p->used; i++)
			append(t, &p->slot[i]);
		if (p != &old) {
			p->used = 0;
			p->next = t->free;
			t->free = p;
		}
		p = next;
	}
}

uint64_t *hash_value(struct hash_table *t, const char key[16])
{
	struct hash_slot new = { .value = 0 };

	for (struct hash_page *p = bucket_of(t, key); p; p = p->next)
		for (uint64_t i = 0; i < p->used; i++)
			if (!memcmp(p->slot[i].key, key, sizeof(new.key)))
				return &p->slot[i].value;
	if (t->keys++ >= FILL * t->buckets)
		split(t);
	memcpy(new.key, key, sizeof(new.key));
	return &append(t, &new)->value;
}
