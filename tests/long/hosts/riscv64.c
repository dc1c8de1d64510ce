/* SPDX-License-Identifier: MIT */
/* A KVM host of a RISC-V processor with the hypervisor extension; its KVM is a module. */
#include <string.h>
#include <sys/ioctl.h>

#include "host.h"

enum { MEMORY = 2 << 20, DEVICE = 0x10000000, END = DEVICE + 4 };
#define RAM 0x80000000

extern const unsigned char guest_code[], guest_end[];

/* Never called: 1000 writes to a device, 500 calls, 20 waits. */
static __attribute__((used, noinline, noclone)) void code(void)
{
	asm volatile(".option push\n"
		     ".option norvc\n"
		     ".globl guest_code, guest_end\n"
		     "guest_code:\n"
		     "	lui	s0, 0x10000\n"
		     "	li	s1, 1000\n"
		     "0:	sw	s1, 0(s0)\n"
		     "	addi	s1, s1, -1\n"
		     "	bnez	s1, 0b\n"
		     "	li	s1, 500\n"
		     "0:	li	a7, 0x10\n" /* the version of SBI: KVM answers */
		     "	li	a6, 0\n"
		     "	ecall\n"
		     "	addi	s1, s1, -1\n"
		     "	bnez	s1, 0b\n"
		     "	li	s1, 20\n"
		     "0:	wfi\n"
		     "	addi	s1, s1, -1\n"
		     "	bnez	s1, 0b\n"
		     "	sw	s1, 4(s0)\n"
		     "guest_end:\n"
		     ".option pop\n");
}

int main(void)
{
	uint64_t pc = RAM;
	struct kvm_one_reg set = {
		.id = KVM_REG_RISCV | KVM_REG_SIZE_U64 | KVM_REG_RISCV_CORE |
		      KVM_REG_RISCV_CORE_REG(regs.pc),
		.addr = (uintptr_t)&pc,
	};
	struct guest guest;

	host_begin();
	load_module("/kvm.ko");
	guest = guest_create(RAM, MEMORY);
	memcpy(guest.memory, guest_code, guest_end - guest_code);
	must(ioctl(guest.vcpu, KVM_SET_ONE_REG, &set), "the program counter");
	trace_begin();
	guest_run(&guest, END, 10000);
	trace_end();
	host_end();
}
