/* SPDX-License-Identifier: MIT */
#include "host.h"

#define TRACING "/sys/kernel/tracing/"

static const char *const events[] = {
	TRACING "events/kvm/kvm_entry/enable",
	TRACING "events/kvm/kvm_exit/enable",
	TRACING "events/kvm/kvm_userspace_exit/enable",
	TRACING "events/sched/sched_switch/enable",
};

void trace_begin(void)
{
	for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
		put(events[i], "1");
}

void trace_end(void)
{
	put(TRACING "tracing_on", "0");
	show("trace", TRACING "trace");
}
