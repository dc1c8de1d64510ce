/* SPDX-License-Identifier: MIT */
/*
 * A table of `keys` keys is walked in the order of its buckets, and each key's value is added to
 * that of the same key in a second table; the hashes themselves are hashed on. User code only:
 * all memory is there before the Region.
 */
#include <string.h>

#include "ktax.h"
#include "linear-hash.h"

static struct hash_table first, second;
static uint64_t digest;

static void key_of(uint64_t i, char key[16])
{
	char digits[20], *at = digits + sizeof(digits);

	do
		*--at = '0' + i % 10;
	while (i /= 10);
	memset(key, 0, 16);
	memcpy(key, "foo_", 4);
	memcpy(key + 4, at, digits + sizeof(digits) - at);
}

static int op(void)
{
	for (uint64_t n = 0; n < first.buckets; n++)
		for (struct hash_page *p = first.bucket + n; p; p = p->next)
			for (uint64_t i = 0; i < p->used; i++) {
				*hash_value(&second, p->slot[i].key) += p->slot[i].value;
				digest = (digest ^ hash_of(p->slot[i].key)) * 1099511628211;
			}
	return first.keys != second.keys;
}

static void hashes_run(const struct order *o)
{
	const uint64_t warm_up = 1; /* in which the second table grows */
	uint64_t keys = param(o, "keys", 10000), wrong = 0;
	char key[16];

	hash_make(&first, keys);
	hash_make(&second, keys);
	for (uint64_t i = 0; i < keys; i++) {
		key_of(i, key);
		*hash_value(&first, key) = i;
	}
	measure(o, warm_up, op, "rounds");
	for (uint64_t i = 0; i < keys; i++) {
		key_of(i, key);
		wrong += *hash_value(&second, key) != (warm_up + o->ops) * i;
	}
	sig("keys", second.keys);
	sig("wrong", wrong);
	sig("digest", digest >> 1); /* 63 bits, as the files of workloads have */
}

WORKLOAD("hashes", hashes_run);
