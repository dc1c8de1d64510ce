/* SPDX-License-Identifier: MIT */
/* A KVM host of a POWER9 processor, which is a hypervisor's guest itself. */
#include <string.h>
#include <sys/ioctl.h>

#include "host.h"

enum { MEMORY = 16 << 20, CODE = 0x10000, H_PUT_TERM_CHAR = 0x58, H_END = 0x5c };

/* 64 bits, machine checks, little-endian; no address is translated. */
#define MSR_SF_ME_LE 0x8000000000001001

extern const unsigned char guest_code[], guest_end[];

/* Never called: 1000 calls of the hypervisor, and another one for the end. */
static __attribute__((used, noinline, noclone)) void code(void)
{
	asm volatile(".globl guest_code, guest_end\n"
		     "guest_code:\n"
		     "	li	31, 1000\n"
		     "0:	li	3, %0\n"
		     "	sc	1\n"
		     "	addi	31, 31, -1\n"
		     "	cmpdi	31, 0\n"
		     "	bne	0b\n"
		     "	li	3, %1\n"
		     "	sc	1\n"
		     "guest_end:\n"
		     : : "i"(H_PUT_TERM_CHAR), "i"(H_END));
}

int main(void)
{
	struct kvm_enable_cap papr = { .cap = KVM_CAP_PPC_PAPR };
	struct kvm_regs regs = { .pc = CODE, .msr = MSR_SF_ME_LE };
	struct guest guest;

	host_begin();
	guest = guest_create(0, MEMORY);
	must(ioctl(guest.vcpu, KVM_ENABLE_CAP, &papr), "KVM_CAP_PPC_PAPR");
	memcpy(guest.memory + CODE, guest_code, guest_end - guest_code);
	must(ioctl(guest.vcpu, KVM_SET_REGS, &regs), "KVM_SET_REGS");
	guest_run(&guest, H_END, 0);
	show("timings", guest_file(&guest, "timings"));
	host_end();
}
