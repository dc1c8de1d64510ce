/* SPDX-License-Identifier: MIT */
/* A KVM host of an arm64 processor, at EL2. */
#include <sys/ioctl.h>

#include "raw.h"

#define RAM 0x40000000
#define REGISTER(name) \
	(KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | KVM_REG_ARM_CORE_REG(regs.name))

/* The guest: x19 is a device, x20 the rounds, x21 memory that was not touched. */
extern const unsigned char guest_code[], guest_end[];
extern const unsigned char guest_all[], guest_hvc[], guest_mrs[], guest_mmio[], guest_fault[],
	guest_wfi[];

static const struct kind kinds[] = {
	{ "all", guest_all },
	{ "hvc", guest_hvc },
	{ "mrs", guest_mrs },
	{ "mmio", guest_mmio },
	{ "fault", guest_fault },
	{ "wfi", guest_wfi },
	{ NULL, NULL },
};

/* SMCCC's version, which KVM answers; a register that KVM reads; a device that nobody has. */
#define HVC "	mov	w0, #0x80000000\n	hvc	#0\n"
#define MRS "	mrs	x1, id_aa64mmfr0_el1\n"
#define MMIO "	str	w20, [x19]\n"
#define FAULT "	str	w20, [x21]\n	add	x21, x21, #4096\n"
#define WFI "	wfi\n"
#define ROUNDS(kind, code) \
	".globl guest_" kind "\n" \
	"guest_" kind ":\n" code \
	"	subs	x20, x20, #1\n" \
	"	b.ne	guest_" kind "\n" \
	"	b	guest_last\n"

/* Never called. */
static __attribute__((used, noinline, noclone)) void code(void)
{
	asm volatile(".globl guest_code, guest_end\n"
		     "guest_code:\n"
		     ROUNDS("all", HVC MRS MMIO FAULT WFI)
		     ROUNDS("hvc", HVC)
		     ROUNDS("mrs", MRS)
		     ROUNDS("mmio", MMIO)
		     ROUNDS("fault", FAULT)
		     ROUNDS("wfi", WFI)
		     "guest_last:	str	w20, [x19, #4]\n"
		     "guest_end:\n");
}

int main(int argc, char **argv)
{
	static const struct board board = { kinds, guest_code, guest_end, .memory = RAM, .page = 4096 };
	struct kvm_vcpu_init init;
	struct raw raw;

	host_begin();
	raw = raw_create(argc, argv, &board);
	must(ioctl(raw.guest.vm, KVM_ARM_PREFERRED_TARGET, &init), "KVM_ARM_PREFERRED_TARGET");
	must(ioctl(raw.guest.vcpu, KVM_ARM_VCPU_INIT, &init), "KVM_ARM_VCPU_INIT");
	raw_set(&raw, REGISTER(pc), raw.pc);
	raw_set(&raw, REGISTER(regs[19]), DEVICE);
	raw_set(&raw, REGISTER(regs[20]), raw.rounds);
	raw_set(&raw, REGISTER(regs[21]), RAM + FIRST_PAGE);
	raw_trace(&raw);
	host_end();
}
