/* SPDX-License-Identifier: MIT */
/*
 * A program of a KVM host that goes on from one state with one order after the other: it freezes
 * the machine, and prints the order that QEMU has when it goes on. guest/wire.c does the same
 * for counts.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/io.h>

#include "guest.h"

enum { FW_CFG = 0x510, FW_CFG_DATA = 0x511, FW_CFG_DIRECTORY = 0x19 };

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

static void print(const char *task)
{
	puts(task);
}

/* `ktax-freeze quiet` waits until the kernel is idle, and prints what still ran if it never is. */
int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "quiet")) {
		quiet(print);
		return fflush(stdout) ? 1 : 0;
	}
	if (iopl(3)) {
		perror("iopl: the kernel needs CONFIG_X86_IOPL_IOPERM");
		return 1;
	}
	standstill();
	return print_order();
}
