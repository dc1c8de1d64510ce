/* SPDX-License-Identifier: MIT */
/*
 * From QEMU's loader (multiboot, 32 bits) to 64-bit C: first on the first vCPU, then on each other
 * one, which begins at `others` in real mode. Each has what a CPU of Linux has: a number, and a
 * per-CPU area of its own at the base of GS.
 */
	.set MAGIC, 0x1badb002
	.set FLAGS, 0x00010000 /* the addresses are here */
	.set OTHERS, 0x8000 /* where others begin; below 1 MiB */
	.set CODE_32, 0x08
	.set DATA, 0x10
	.set CODE_64, 0x18
	.set STACK, 4096
	.set EFER, 0xc0000080
	.set GS_BASE, 0xc0000101

	.section .head, "ax"
header:
	.long MAGIC, FLAGS, -(MAGIC + FLAGS)
	.long header, header, load_end, bss_end, first

	.text
	.code32
first:
	mov %ebx, boot_info
	lgdt gdt_pointer
	ljmp $CODE_32, $each

	.code16
	.globl others, others_end, first
others:
	cli
	xor %ax, %ax
	mov %ax, %ds
	lgdtl OTHERS + (gdt_near - others)
	mov $1, %eax /* protected mode */
	mov %eax, %cr0
	ljmpl $CODE_32, $each
gdt_near:
	.word gdt_end - gdt - 1
	.long gdt
others_end:

	.code32
each:
	mov $DATA, %ax
	mov %ax, %ds
	mov %ax, %es
	mov %ax, %ss
	mov $0x620, %eax /* PAE, and SSE, which compilers use */
	mov %eax, %cr4
	mov $top, %eax
	mov %eax, %cr3
	mov $EFER, %ecx
	rdmsr
	bts $8, %eax /* long mode */
	wrmsr
	mov $0x80000001, %eax /* paging, protected mode */
	mov %eax, %cr0
	ljmp $CODE_64, $long_mode

	.code64
long_mode:
	mov $1, %ebx
	lock xadd %ebx, cpus
	mov $GS_BASE, %ecx
	mov %ebx, %eax
	shl $12, %eax
	add $0x10000, %eax
	mov $0xffff8880, %edx
	wrmsr
	lea 1(%rbx), %ecx
	imul $STACK, %ecx, %ecx
	lea stacks(%rcx), %rsp
	mov %ebx, %edi
	call run
1:	cli
	hlt
	jmp 1b

	.data
	.balign 8
gdt:
	.quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff, 0x00af9a000000ffff
gdt_end:
gdt_pointer:
	.word gdt_end - gdt - 1
	.long gdt

	/* The first 4 GiB, in pages of 1 GiB. */
	.balign 4096
top:
	.quad giga + 3
	.balign 4096
giga:
	.quad 0x00000083, 0x40000083, 0x80000083, 0xc0000083
	.balign 4096

	.globl cpus, boot_info
cpus:
	.long 0
boot_info:
	.long 0

	.bss
	.balign 16
stacks:
	.skip 4 * STACK

	.section .note.GNU-stack, "", @progbits
