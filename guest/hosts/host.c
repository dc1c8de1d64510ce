/* SPDX-License-Identifier: MIT */
/* The first process of a KVM host, its guest, and the events that it shows. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "host.h"

static const struct { const char *type, *at; } mounts[] = {
	{ "proc", "/proc" },
	{ "sysfs", "/sys" },
	{ "devtmpfs", "/dev" },
	{ "debugfs", "/sys/kernel/debug" },
	{ "tracefs", "/sys/kernel/tracing" },
};

static _Noreturn void off(void)
{
	fflush(stdout);
	sync();
	/* Not every machine can be switched off, but QEMU ends when one is reset. */
	reboot(RB_AUTOBOOT);
	abort();
}

long must(long result, const char *what)
{
	if (result < 0) {
		printf("host: %s: %s\n", what, strerror(errno));
		off();
	}
	return result;
}

void host_begin(void)
{
	int console;

	for (size_t i = 0; i < sizeof mounts / sizeof mounts[0]; i++) {
		mkdir(mounts[i].at, 0755);
		/* Not every kernel has each of them. */
		mount(mounts[i].type, mounts[i].at, mounts[i].type, 0, NULL);
	}
	console = must(open("/dev/console", O_RDWR), "/dev/console");
	for (int fd = 0; fd < 3; fd++)
		dup2(console, fd);
	puts("host: begin");
}

void host_end(void)
{
	puts("host: end");
	off();
}

void show(const char *title, const char *path)
{
	static char text[1 << 16];
	int file = must(open(path, O_RDONLY), path);
	ssize_t length;

	printf("== %s\n", title);
	while ((length = must(read(file, text, sizeof text), path)) > 0)
		fwrite(text, 1, length, stdout);
	close(file);
	puts("==");
}

void spin(unsigned long iterations)
{
	while (iterations--)
		asm volatile("");
}

void put(const char *path, const char *text)
{
	int file = must(open(path, O_WRONLY), path);

	must(write(file, text, strlen(text)), path);
	close(file);
}

/* A guest that does not end is given up after a minute. */
enum { LIMIT_S = 60, SECOND_US = 1000000 };

static volatile sig_atomic_t ticks;

static void tick(int signal)
{
	(void)signal;
	ticks++;
}

struct guest guest_create(uint64_t address, size_t memory)
{
	int kvm = must(open("/dev/kvm", O_RDWR), "/dev/kvm");
	struct guest guest = { .vm = must(ioctl(kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM") };
	struct kvm_userspace_memory_region region = { .guest_phys_addr = address };
	long size = must(ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), "KVM_GET_VCPU_MMAP_SIZE");

	guest.memory = mmap(NULL, memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(guest.memory == MAP_FAILED ? -1 : 0, "memory");
	region.memory_size = memory;
	region.userspace_addr = (uintptr_t)guest.memory;
	must(ioctl(guest.vm, KVM_SET_USER_MEMORY_REGION, &region), "KVM_SET_USER_MEMORY_REGION");
	guest.vcpu = must(ioctl(guest.vm, KVM_CREATE_VCPU, 0), "KVM_CREATE_VCPU");
	guest.run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, guest.vcpu, 0);
	must(guest.run == MAP_FAILED ? -1 : 0, "kvm_run");
	return guest;
}

const char *guest_file(const struct guest *guest, const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "/sys/kernel/debug/kvm/%d-%d/vcpu0/%s", getpid(), guest->vm, name);
	return path;
}

/* The address or the call by which the guest left KVM. */
static uint64_t said(const struct kvm_run *run)
{
	switch (run->exit_reason) {
	case KVM_EXIT_MMIO:
		return run->mmio.phys_addr;
	case KVM_EXIT_PAPR_HCALL:
		return run->papr_hcall.nr;
	default:
		printf("host: KVM_RUN ended with %u\n", run->exit_reason);
		return must(-1, "an exit that was not expected");
	}
}

void guest_run(const struct guest *guest, uint64_t end, long every_us)
{
	const struct itimerval start = { { 0, every_us }, { every_us ? 0 : LIMIT_S, every_us } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };
	const struct sigaction action = { .sa_handler = tick };

	ticks = 0;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &start, NULL);
	for (;;) {
		int result = ioctl(guest->vcpu, KVM_RUN, 0);

		if (result < 0 && errno == EINTR && every_us && ticks < LIMIT_S * SECOND_US / every_us)
			continue;
		must(result, "KVM_RUN");
		if (said(guest->run) == end)
			break;
	}
	setitimer(ITIMER_REAL, &never, NULL);
}

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
