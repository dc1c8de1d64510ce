/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <unistd.h>

#include "arena.h"
#include "ktax.h"

static char buffer[4096];
static ssize_t filled, taken;

static int get(int fd)
{
	if (taken == filled) {
		taken = 0;
		filled = read(fd, buffer, sizeof(buffer));
	}
	return filled > 0 ? buffer[taken++] : -1;
}

/* A hexadecimal number and the character behind it. */
static uint64_t address(int fd)
{
	uint64_t value = 0;

	for (int c; (c = get(fd)) > ' ' && c != '-';)
		value = value * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
	return value;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	return (hash ^ value) * 0x100000001b3; /* FNV-1a, a word at a time */
}

/*
 * Counts the VMAs as the kernel has them, but hashes what a program can tell apart: neighbours
 * of one protection are one area there. Whether the kernel merges them is the kernel's choice.
 */
struct layout arena_layout(const struct arena *a)
{
	const uint64_t first = (uintptr_t)a->start, last = first + (uint64_t)a->pages * PAGE;
	struct layout layout = { .hash = 0xcbf29ce484222325 };
	uint64_t start, area_end = first, area_prot = 0;
	int fd = open("/proc/self/maps", O_RDONLY);

	if (fd < 0)
		fail("open /proc/self/maps");
	while ((start = address(fd))) {
		uint64_t end = address(fd);
		uint64_t prot = (get(fd) == 'r') + 2 * (get(fd) == 'w');
		for (int c = 0; c >= 0 && c != '\n';)
			c = get(fd);
		if (start < first || start >= last)
			continue;
		layout.vmas++;
		if (start != area_end || prot != area_prot)
			layout.hash = mix(mix(mix(layout.hash, area_end - first), start - first), prot);
		area_end = end;
		area_prot = prot;
	}
	layout.hash = mix(layout.hash, area_end - first) >> 1; /* fits an integer of TOML */
	close(fd);
	return layout;
}
