/* SPDX-License-Identifier: MIT */
/*
 * A KVM host of an e500v2 processor, which has no virtualization: what its guest may not do is
 * emulated, or the guest reads and writes a page that it shares with KVM, the "magic page".
 */
#include <asm/kvm_para.h>
#include <string.h>
#include <sys/ioctl.h>

#include "host.h"

enum { MEMORY = 4 << 20, CODE = 0x1000, DEVICE = 0x1000000, END = 0x2000000, ROUNDS = 2000 };
enum { TLB0 = 512, TLB1 = 16 }; /* entries */

/* The lower half of a register in the magic page, which is at -4096. */
#define MAGIC(reg) "i"((int)offsetof(struct kvm_vcpu_arch_shared, reg) + 4 - 4096)

extern const unsigned char trapping[], paravirtual[], guests_end[];

/* Never called: the guests' code. r5: a device; r6: rounds; r7: where to say the end; r9: 0. */
static __attribute__((used, noinline, noclone)) void guests(void)
{
	asm volatile(".globl trapping, paravirtual, guests_end\n"
		     "trapping:\n"
		     "0:	mfmsr	3\n"
		     "	mtspr	272, 3\n" /* SPRG0 */
		     "	mfspr	4, 272\n"
		     "	stw	3, 0(5)\n"
		     "	wrteei	0\n"
		     "	li	8, %0 + 1f - trapping\n"
		     "	mtspr	26, 8\n" /* SRR0 */
		     "	mtspr	27, 9\n" /* SRR1 */
		     "	rfi\n"
		     "1:	addic.	6, 6, -1\n"
		     "	bne	0b\n"
		     "	stw	3, 0(7)\n"
		     : : "i"(CODE));
	/* KVM_HC_PPC_MAP_MAGIC_PAGE, with its address; then the same work. */
	asm volatile("paravirtual:\n"
		     "	lis	0, 0x4b56; ori 0, 0, 0x4d21\n" /* KVM_SC_MAGIC_R0 */
		     "	lis	11, 42; ori 11, 11, 4\n" /* the fourth of KVM's calls */
		     "	li	3, -4096\n"
		     "	li	4, -4096 + 1\n"
		     "	sc\n"
		     "0:	lwz	3, %1(0)\n"
		     "	stw	3, %2(0)\n"
		     "	lwz	4, %2(0)\n"
		     "	stw	3, 0(5)\n"
		     "	stw	9, %1(0)\n"
		     "	li	8, %0 + 1f - paravirtual\n"
		     "	stw	8, %3(0)\n"
		     "	stw	9, %4(0)\n"
		     "	rfi\n"
		     "1:	addic.	6, 6, -1\n"
		     "	bne	0b\n"
		     "	stw	3, 0(7)\n"
		     "guests_end:\n"
		     : : "i"(CODE), MAGIC(msr), MAGIC(sprg0), MAGIC(srr0), MAGIC(srr1));
}

/* All memory in one entry of the TLB that user space and KVM share. */
static void map_memory(const struct guest *guest)
{
	static struct kvm_book3e_206_tlb_entry entries[TLB0 + TLB1];
	static const struct kvm_book3e_206_tlb_params params = {
		.tlb_sizes = { TLB0, TLB1 }, .tlb_ways = { 4, TLB1 },
	};
	struct kvm_config_tlb config = {
		.params = (uintptr_t)&params,
		.array = (uintptr_t)entries,
		.mmu_type = KVM_MMU_FSL_BOOKE_NOHV,
		.array_len = sizeof entries,
	};
	struct kvm_enable_cap share = { .cap = KVM_CAP_SW_TLB, .args = { (uintptr_t)&config } };

	entries[TLB0].mas1 = 1u << 31 | 9 << 8; /* valid, 256 MiB */
	entries[TLB0].mas7_3 = 0x15; /* the supervisor executes, writes, reads */
	must(ioctl(guest->vcpu, KVM_ENABLE_CAP, &share), "KVM_CAP_SW_TLB");
}

static void run(const char *title, const unsigned char *code, const unsigned char *end)
{
	struct guest guest = guest_create(0, MEMORY);
	struct kvm_regs regs = { .pc = CODE, .gpr = { [5] = DEVICE, [6] = ROUNDS, [7] = END } };

	map_memory(&guest);
	memcpy(guest.memory + CODE, code, end - code);
	must(ioctl(guest.vcpu, KVM_SET_REGS, &regs), "KVM_SET_REGS");
	guest_run(&guest, END, 0);
	show(title, guest_file(&guest, "timing"));
}

int main(void)
{
	host_begin();
	run("trap and emulate", trapping, paravirtual);
	run("magic page", paravirtual, guests_end);
	host_end();
}
