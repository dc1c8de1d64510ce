/* SPDX-License-Identifier: MIT */
/*
 * A KVM host of an e500v2 processor, which has no virtualization: what its guest may not do is
 * emulated, or the guest reads and writes a page that it shares with KVM, the "magic page".
 *
 * KIND=ROUNDS [magic-page] [phase=N]: what the guest does in each round, whether by means of the
 * page, and how long the host waits before it.
 */
#include <asm/kvm_para.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "host.h"

enum { MEMORY = 4 << 20, CODE = 0x1000, DEVICE = 0x1000000, END = 0x2000000 };
enum { TLB0 = 512, TLB1 = 16 }; /* entries */

/* The lower half of a register in the magic page, which is at -4096. */
#define MAGIC(reg) "i"((int)offsetof(struct kvm_vcpu_arch_shared, reg) + 4 - 4096)

/* The code of guests: r5 is a device, r6 the rounds, r7 where to say the end, r9 is 0. */
extern const uint32_t trap_mfmsr[], trap_mtspr[], trap_mfspr[], trap_mmio[], trap_wrtee[],
	trap_rfi[], trap_end[];
extern const uint32_t page_mfmsr[], page_mtspr[], page_mfspr[], page_mmio[], page_wrtee[],
	page_rfi[], page_end[];
extern const uint32_t ask[], ask_end[], count_down[], count_end[], done[], done_end[];

/* One thing after the other, up to the last, which is none: each ends where the next begins. */
static const struct { const char *name; const uint32_t *trap, *page; } kinds[] = {
	{ "mfmsr", trap_mfmsr, page_mfmsr },
	{ "mtspr", trap_mtspr, page_mtspr },
	{ "mfspr", trap_mfspr, page_mfspr },
	{ "mmio", trap_mmio, page_mmio },
	{ "wrtee", trap_wrtee, page_wrtee },
	{ "rfi", trap_rfi, page_rfi },
	{ NULL, trap_end, page_end },
};

/* Never called. SPRG0 is 272, SRR0 is 26 and SRR1 is 27; `bcl` says where it is. */
static __attribute__((used, noinline, noclone)) void code(void)
{
	asm volatile("trap_mfmsr:	mfmsr	3\n"
		     "trap_mtspr:	mtspr	272, 3\n"
		     "trap_mfspr:	mfspr	4, 272\n"
		     "trap_mmio:	stw	3, 0(5)\n"
		     "trap_wrtee:	wrteei	0\n"
		     "trap_rfi:	bcl	20, 31, 0f\n"
		     "0:	mflr	8\n"
		     "	addi	8, 8, trap_end - 0b\n"
		     "	mtspr	26, 8\n"
		     "	mtspr	27, 9\n"
		     "	rfi\n"
		     "trap_end:\n");
	asm volatile("page_mfmsr:	lwz	3, %0(0)\n"
		     "page_mtspr:	stw	3, %1(0)\n"
		     "page_mfspr:	lwz	4, %1(0)\n"
		     "page_mmio:	stw	3, 0(5)\n"
		     "page_wrtee:	stw	9, %0(0)\n"
		     "page_rfi:	bcl	20, 31, 0f\n"
		     "0:	mflr	8\n"
		     "	addi	8, 8, page_end - 0b\n"
		     "	stw	8, %2(0)\n"
		     "	stw	9, %3(0)\n"
		     "	rfi\n"
		     "page_end:\n"
		     : : MAGIC(msr), MAGIC(sprg0), MAGIC(srr0), MAGIC(srr1));
	/* KVM_HC_PPC_MAP_MAGIC_PAGE, with its address. */
	asm volatile("ask:	lis	0, 0x4b56; ori 0, 0, 0x4d21\n" /* KVM_SC_MAGIC_R0 */
		     "	lis	11, 42; ori 11, 11, 4\n" /* the fourth of KVM's calls */
		     "	li	3, -4096\n"
		     "	li	4, -4096 + 1\n"
		     "	sc\n"
		     "ask_end:\n"
		     "count_down:	addic.	6, 6, -1\n"
		     "count_end:\n"
		     "done:	stw	3, 0(7)\n"
		     "done_end:\n");
}

static uint32_t *append(uint32_t *at, const uint32_t *from, const uint32_t *to)
{
	memcpy(at, from, (to - from) * sizeof *at);
	return at + (to - from);
}

/* The code of a guest that does `wanted` in each round. */
static void compose(uint32_t *at, const char *wanted, int has_page)
{
	uint32_t *round = at = has_page ? append(at, ask, ask_end) : at;

	for (size_t i = 0; kinds[i].name; i++) {
		if (strcmp(wanted, "all") && strcmp(wanted, kinds[i].name))
			continue;
		at = has_page ? append(at, kinds[i].page, kinds[i + 1].page)
			      : append(at, kinds[i].trap, kinds[i + 1].trap);
	}
	must(at == round ? -1 : 0, wanted);
	at = append(at, count_down, count_end);
	*at = 0x40820000 | ((round - at) * sizeof *at & 0xfffc); /* bne */
	append(at + 1, done, done_end);
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

int main(int argc, char **argv)
{
	struct kvm_regs regs = { .pc = CODE, .gpr = { [5] = DEVICE, [7] = END } };
	struct guest guest;
	unsigned long phase = 0;
	int has_page = 0;
	char kind[16];
	unsigned rounds;

	host_begin();
	must(argc < 2 || sscanf(argv[1], "%15[a-z]=%u", kind, &rounds) != 2 ? -1 : 0, "arguments");
	for (int i = 2; i < argc; i++)
		if (sscanf(argv[i], "phase=%lu", &phase) != 1)
			has_page = !strcmp(argv[i], "magic-page");
	guest = guest_create(0, MEMORY);
	map_memory(&guest);
	compose((uint32_t *)(guest.memory + CODE), kind, has_page);
	regs.gpr[6] = rounds;
	must(ioctl(guest.vcpu, KVM_SET_REGS, &regs), "KVM_SET_REGS");
	spin(phase);
	guest_run(&guest, END, 0);
	show(argv[1], guest_file(&guest, "timing"));
	host_end();
}
