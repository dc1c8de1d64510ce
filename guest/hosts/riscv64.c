/* SPDX-License-Identifier: MIT */
/* A KVM host of a RISC-V processor with the hypervisor extension. */
#include "raw.h"

enum { PAGE = 4096 };
#define RAM 0x80000000
#define REGISTER(name) \
	(KVM_REG_RISCV | KVM_REG_SIZE_U64 | KVM_REG_RISCV_CORE | KVM_REG_RISCV_CORE_REG(regs.name))

/* The guest: s0 is a device, s1 the rounds, s2 memory that was not touched, s3 a page's size. */
extern const unsigned char guest_code[], guest_end[];
extern const unsigned char guest_all[], guest_ecall[], guest_mmio[], guest_fault[], guest_wfi[];

static const struct kind kinds[] = {
	{ "all", guest_all },
	{ "ecall", guest_ecall },
	{ "mmio", guest_mmio },
	{ "fault", guest_fault },
	{ "wfi", guest_wfi },
	{ NULL, NULL },
};

/* The version of SBI, which KVM answers; a device that nobody has; a page; a wait. */
#define ECALL "	li	a7, 0x10\n	li	a6, 0\n	ecall\n"
#define MMIO "	sw	s1, 0(s0)\n"
#define FAULT "	sw	s1, 0(s2)\n	add	s2, s2, s3\n"
#define WFI "	wfi\n"
#define ROUNDS(kind, code) \
	".globl guest_" kind "\n" \
	"guest_" kind ":\n" code \
	"	addi	s1, s1, -1\n" \
	"	bnez	s1, guest_" kind "\n" \
	"	j	guest_last\n"

/* Never called. */
static __attribute__((used, noinline, noclone)) void code(void)
{
	asm volatile(".option push\n"
		     ".option norvc\n"
		     ".option norelax\n"
		     ".globl guest_code, guest_end\n"
		     "guest_code:\n"
		     ROUNDS("all", ECALL MMIO FAULT WFI)
		     ROUNDS("ecall", ECALL)
		     ROUNDS("mmio", MMIO)
		     ROUNDS("fault", FAULT)
		     ROUNDS("wfi", WFI)
		     "guest_last:	sw	s1, 4(s0)\n"
		     "guest_end:\n"
		     ".option pop\n");
}

int main(int argc, char **argv)
{
	static const struct board board = { kinds, guest_code, guest_end, .memory = RAM, .page = PAGE };
	struct raw raw;

	host_begin();
	raw = raw_create(argc, argv, &board);
	raw_set(&raw, REGISTER(pc), raw.pc);
	raw_set(&raw, REGISTER(s0), DEVICE);
	raw_set(&raw, REGISTER(s1), raw.rounds);
	raw_set(&raw, REGISTER(s2), RAM + FIRST_PAGE);
	raw_set(&raw, REGISTER(s3), PAGE);
	raw_trace(&raw);
	host_end();
}
