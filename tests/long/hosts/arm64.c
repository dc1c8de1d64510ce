/* SPDX-License-Identifier: MIT */
/* A KVM host of an arm64 processor, at EL2. */
#include <string.h>
#include <sys/ioctl.h>

#include "host.h"

enum { MEMORY = 2 << 20, RAM = 0x40000000, DEVICE = 0x10000000, END = DEVICE + 4 };

extern const unsigned char guest_code[], guest_end[];

/* Never called: 1000 writes to a device, 500 calls, 20 waits. */
static __attribute__((used, noinline, noclone)) void code(void)
{
	asm volatile(".globl guest_code, guest_end\n"
		     "guest_code:\n"
		     "	mov	x19, #0x10000000\n"
		     "	mov	x20, #1000\n"
		     "0:	str	w20, [x19]\n"
		     "	subs	x20, x20, #1\n"
		     "	b.ne	0b\n"
		     "	mov	x20, #500\n"
		     "0:	mov	w0, #0x80000000\n" /* SMCCC's version: KVM answers */
		     "	hvc	#0\n"
		     "	subs	x20, x20, #1\n"
		     "	b.ne	0b\n"
		     "	mov	x20, #20\n"
		     "0:	wfi\n"
		     "	subs	x20, x20, #1\n"
		     "	b.ne	0b\n"
		     "	str	w20, [x19, #4]\n"
		     "guest_end:\n");
}

int main(void)
{
	uint64_t pc = RAM;
	struct kvm_one_reg set = {
		.id = KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE |
		      KVM_REG_ARM_CORE_REG(regs.pc),
		.addr = (uintptr_t)&pc,
	};
	struct kvm_vcpu_init init;
	struct guest guest;

	host_begin();
	guest = guest_create(RAM, MEMORY);
	must(ioctl(guest.vm, KVM_ARM_PREFERRED_TARGET, &init), "KVM_ARM_PREFERRED_TARGET");
	must(ioctl(guest.vcpu, KVM_ARM_VCPU_INIT, &init), "KVM_ARM_VCPU_INIT");
	memcpy(guest.memory, guest_code, guest_end - guest_code);
	must(ioctl(guest.vcpu, KVM_SET_ONE_REG, &set), "the program counter");
	trace_begin();
	guest_run(&guest, END, 10000);
	trace_end();
	host_end();
}
