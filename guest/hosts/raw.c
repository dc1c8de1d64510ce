/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "raw.h"

/* A processor that waits goes on at a signal. Other guests hear of none: each would be an exit. */
enum { WAKE_US = 10000 };
/* Long enough for all that the host's kernel still does after its boot. */
enum { QUIET_S = 5 };

struct raw raw_order(int argc, char **argv, const struct kind *kinds)
{
	struct raw order = { .kind = kinds };
	char name[16];

	must(argc < 2 || sscanf(argv[1], "%15[a-z]=%u", name, &order.rounds) != 2 ? -1 : 0, "arguments");
	must(order.rounds ? 0 : -1, "no rounds");
	while (order.kind->name && strcmp(order.kind->name, name))
		order.kind++;
	must(order.kind->name ? 0 : -1, name);
	for (int i = 2; i < argc; i++)
		sscanf(argv[i], "phase=%lu", &order.phase);
	return order;
}

void raw_pages(const struct raw *order, unsigned pages)
{
	must(order->rounds <= pages ? 0 : -1, "more rounds than pages");
}

void raw_wait(const struct raw *order)
{
	sleep(QUIET_S);
	spin(order->phase);
}

void raw_trace(const struct guest *guest, const struct raw *order, uint64_t end)
{
	const int waits = !strcmp(order->kind->name, "wfi") || !strcmp(order->kind->name, "all");

	/* Events that do not fit are lost. */
	put("/sys/kernel/tracing/buffer_size_kb", "65536");
	raw_wait(order);
	trace_begin();
	guest_run(guest, end, waits ? WAKE_US : 0);
	trace_end();
}
