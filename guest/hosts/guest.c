/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "host.h"

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

/* What the guest said to its devices or its hypervisor. */
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
