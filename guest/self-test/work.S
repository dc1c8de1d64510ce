/* SPDX-License-Identifier: MIT */
/*
 * Each vCPU does this 20 000 times: some instructions without the lock, and about as many with it.
 * In how many of them it finds the lock taken follows from these numbers and the quantum, so no
 * compiler may choose them: who changes one measures the shares in crates/ktax-engine/src/exact.rs
 * and tests/boots/self_test.rs again. Both lengths are random. Fixed ones are in step with some
 * quanta, and then a jitter of the quantum alone changes the share by a third.
 */
	/* ECX times six instructions: QEMU does not divide what is between two jumps. */
	.macro six_times_ecx
1:	nop
	nop
	nop
	nop
	dec %ecx
	jnz 1b
	.endm

	.text
	.code64
	/* void work(unsigned cpu, unsigned is_locked) */
	.globl work
work:
	mov $20000, %r8d
	imul $0x9e3779b1, %edi, %edx
	inc %edx
next:
	imul $1664525, %edx, %edx
	add $1013904223, %edx
	mov %edx, %ecx
	shr $16, %ecx
	imul $30, %ecx, %ecx
	shr $16, %ecx
	inc %ecx /* 1 to 30 */
	six_times_ecx
	test %esi, %esi
	jz with_lock
	mov $1, %eax
	xchg %eax, lock
	test %eax, %eax
	jz with_lock
	incl contended(, %rdi, 4)
wait:
	pause
	cmpl $0, lock
	jne wait
	mov $1, %eax
	xchg %eax, lock
	test %eax, %eax
	jnz wait
with_lock:
	mov counter, %r9d
	imul $0x9e3779b1, %edx, %ecx
	shr $16, %ecx
	imul $20, %ecx, %ecx
	shr $16, %ecx
	add $8, %ecx /* 8 to 27 */
	six_times_ecx
	inc %r9d
	mov %r9d, counter
	movl $0, lock
	dec %r8d
	jnz next
	ret

	.bss
	.balign 64
lock:
	.long 0
	.balign 64
	.globl counter
counter:
	.long 0
	.balign 64
	.globl contended
contended:
	.skip 4 * 4

	.section .note.GNU-stack, "", @progbits
