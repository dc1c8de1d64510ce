/* SPDX-License-Identifier: MIT */
/* A KVM host of an arm64 processor, at EL2. */
#include <string.h>
#include <sys/ioctl.h>

#include "raw.h"

enum { MEMORY = 64 << 20, RAM = 0x40000000, DEVICE = 0x10000000, END = DEVICE + 4 };
enum { PAGE = 4096, FIRST_PAGE = 1 << 20 };

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

static void set(const struct guest *guest, uint64_t reg, uint64_t value)
{
	struct kvm_one_reg one = {
		.id = KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | reg,
		.addr = (uintptr_t)&value,
	};

	must(ioctl(guest->vcpu, KVM_SET_ONE_REG, &one), "KVM_SET_ONE_REG");
}

int main(int argc, char **argv)
{
	struct kvm_vcpu_init init;
	struct guest guest;
	struct raw order;

	host_begin();
	order = raw_order(argc, argv, kinds);
	raw_pages(&order, (MEMORY - FIRST_PAGE) / PAGE);
	guest = guest_create(RAM, MEMORY);
	must(ioctl(guest.vm, KVM_ARM_PREFERRED_TARGET, &init), "KVM_ARM_PREFERRED_TARGET");
	must(ioctl(guest.vcpu, KVM_ARM_VCPU_INIT, &init), "KVM_ARM_VCPU_INIT");
	memcpy(guest.memory, guest_code, guest_end - guest_code);
	set(&guest, KVM_REG_ARM_CORE_REG(regs.pc), RAM + (order.kind->code - guest_code));
	set(&guest, KVM_REG_ARM_CORE_REG(regs.regs[19]), DEVICE);
	set(&guest, KVM_REG_ARM_CORE_REG(regs.regs[20]), order.rounds);
	set(&guest, KVM_REG_ARM_CORE_REG(regs.regs[21]), RAM + FIRST_PAGE);
	raw_trace(&guest, &order, END);
	host_end();
}
