/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "raw.h"

/* A processor that waits goes on at a signal. Other guests hear of none: each would be an exit. */
enum { WAKE_US = 10000 };
/* Long enough for all that the host's kernel still does after its boot. */
enum { QUIET_S = 5 };

static struct raw ordered(int argc, char **argv, const struct kind *kinds)
{
	struct raw raw = { .kind = kinds };
	char name[16];

	must(argc < 2 || sscanf(argv[1], "%15[a-z]=%u", name, &raw.rounds) != 2 ? -1 : 0, "arguments");
	must(raw.rounds ? 0 : -1, "no rounds");
	while (raw.kind->name && strcmp(raw.kind->name, name))
		raw.kind++;
	must(raw.kind->name ? 0 : -1, name);
	for (int i = 2; i < argc; i++)
		sscanf(argv[i], "phase=%lu", &raw.phase);
	return raw;
}

struct raw raw_create(int argc, char **argv, const struct board *board)
{
	struct raw raw = ordered(argc, argv, board->kinds);

	must(raw.rounds <= (MEMORY - FIRST_PAGE) / board->page ? 0 : -1, "more rounds than pages");
	raw.guest = guest_create(board->memory, MEMORY);
	memcpy(raw.guest.memory + CODE, board->code, board->code_end - board->code);
	raw.pc = board->memory + CODE + (raw.kind->code - board->code);
	return raw;
}

void raw_set(const struct raw *raw, uint64_t id, uint64_t value)
{
	struct kvm_one_reg one = { .id = id, .addr = (uintptr_t)&value };

	must(ioctl(raw->guest.vcpu, KVM_SET_ONE_REG, &one), "KVM_SET_ONE_REG");
}

void raw_wait(const struct raw *raw)
{
	sleep(QUIET_S);
	spin(raw->phase);
}

void raw_trace(const struct raw *raw)
{
	const int waits = !strcmp(raw->kind->name, "wfi") || !strcmp(raw->kind->name, "all");

	/* Events that do not fit are lost. */
	put("/sys/kernel/tracing/buffer_size_kb", "65536");
	raw_wait(raw);
	trace_begin();
	guest_run(&raw->guest, END, waits ? WAKE_US : 0);
	trace_end();
}
