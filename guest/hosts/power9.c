/* SPDX-License-Identifier: MIT */
/* A KVM host of a POWER9 processor, which is a hypervisor's guest itself. */
#include <sys/ioctl.h>

#include "raw.h"

enum { PAGE = 65536, H_PUT_TERM_CHAR = 0x58, H_END = 0x5c };

/* 64 bits, machine checks, little-endian; no address is translated. */
#define MSR_SF_ME_LE 0x8000000000001001

/* The guest: r31 is the rounds, r30 memory that was not touched, r29 the size of a page. */
extern const unsigned char guest_code[], guest_end[];
extern const unsigned char guest_all[], guest_hcall[], guest_fault[];

static const struct kind kinds[] = {
	{ "all", guest_all },
	{ "hcall", guest_hcall },
	{ "fault", guest_fault },
	{ NULL, NULL },
};

/* A call of the hypervisor, which the monitor answers; the first store to a page. */
#define HCALL "	li	3, %0\n	sc	1\n"
#define FAULT "	std	31, 0(30)\n	add	30, 30, 29\n"
#define ROUNDS(kind, code) \
	".globl guest_" kind "\n" \
	"guest_" kind ":\n" code \
	"	addi	31, 31, -1\n" \
	"	cmpdi	31, 0\n" \
	"	bne	guest_" kind "\n" \
	"	b	guest_last\n"

/* Never called. */
static __attribute__((used, noinline, noclone)) void code(void)
{
	asm volatile(".globl guest_code, guest_end\n"
		     "guest_code:\n"
		     ROUNDS("all", HCALL FAULT)
		     ROUNDS("hcall", HCALL)
		     ROUNDS("fault", FAULT)
		     "guest_last:	li	3, %1\n"
		     "	sc	1\n"
		     "guest_end:\n"
		     : : "i"(H_PUT_TERM_CHAR), "i"(H_END));
}

int main(int argc, char **argv)
{
	static const struct board board = { kinds, guest_code, guest_end, .memory = 0, .page = PAGE };
	struct kvm_enable_cap papr = { .cap = KVM_CAP_PPC_PAPR };
	struct kvm_regs regs = { .msr = MSR_SF_ME_LE };
	struct raw raw;

	host_begin();
	raw = raw_create(argc, argv, &board);
	must(ioctl(raw.guest.vcpu, KVM_ENABLE_CAP, &papr), "KVM_CAP_PPC_PAPR");
	regs.pc = raw.pc;
	regs.gpr[31] = raw.rounds;
	regs.gpr[30] = FIRST_PAGE;
	regs.gpr[29] = PAGE;
	must(ioctl(raw.guest.vcpu, KVM_SET_REGS, &regs), "KVM_SET_REGS");
	raw_wait(&raw);
	guest_run(&raw.guest, H_END, 0);
	show(argv[1], guest_file(&raw.guest, "timings"));
	host_end();
}
