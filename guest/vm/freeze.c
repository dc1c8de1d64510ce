/* SPDX-License-Identifier: MIT */
/*
 * A program of a KVM host that goes on from one state with one order after the other: it freezes
 * the machine, and prints the order that QEMU has when it goes on. guest/machine.c does the same
 * for counts.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/io.h>

enum { FREEZE = 0x505, FW_CFG = 0x510, FW_CFG_DATA = 0x511, FW_CFG_DIRECTORY = 0x19 };

/*
 * Between the freeze and the stop of QEMU's clock, virtual time may still go on to the next timer
 * tick. After so many virtual nanoseconds that tick is over in any case.
 */
enum { TICK_IS_OVER = 15000000, EXACTLY = 10000 };

static uint64_t now(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/*
 * Returns at this virtual nanosecond, which is not near: under icount an instruction takes one. A
 * loop that only looks at the clock would return some instructions later, now more and now less.
 */
static void wait_until(uint64_t time)
{
	__asm__ volatile("rdtsc\n"
			 "shl $32, %%rdx\n"
			 "or %%rdx, %%rax\n"
			 "sub %%rax, %0\n"
			 "mov %0, %%rax\n"
			 "shr $1, %0\n"
			 "test $1, %%al\n"
			 "jz 1f\n"
			 "nop\n"
			 "1: dec %0\n"
			 "jnz 1b\n"
			 : "+c"(time) : : "rax", "rdx", "cc");
}

static void read_bytes(void *to, size_t length)
{
	for (unsigned char *byte = to; length; length--)
		*byte++ = inb(FW_CFG_DATA);
}

/* The file opt/ktax/order of fw_cfg; numbers there are big-endian. */
static int print_order(void)
{
	struct {
		uint32_t size;
		uint16_t item, reserved;
		char name[56];
	} file;
	uint32_t files;

	outw(FW_CFG_DIRECTORY, FW_CFG);
	read_bytes(&files, sizeof(files));
	for (files = __builtin_bswap32(files); files; files--) {
		read_bytes(&file, sizeof(file));
		if (strncmp(file.name, "opt/ktax/order", sizeof(file.name)))
			continue;
		outw(__builtin_bswap16(file.item), FW_CFG);
		for (uint32_t left = __builtin_bswap32(file.size); left; left--)
			putchar(inb(FW_CFG_DATA));
		return fflush(stdout) ? 1 : 0;
	}
	fputs("QEMU has no order\n", stderr);
	return 1;
}

int main(void)
{
	uint64_t over;

	if (iopl(3)) {
		perror("iopl: the kernel needs CONFIG_X86_IOPL_IOPERM");
		return 1;
	}
	over = now() + TICK_IS_OVER;
	outb(1, FREEZE);
	while (now() < over)
		;
	wait_until(over + EXACTLY);
	return print_order();
}
