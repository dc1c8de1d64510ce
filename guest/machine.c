/* SPDX-License-Identifier: MIT */
/* The ports of the guest, as docs/wire.md names them. */
#include <string.h>
#include <sys/io.h>
#include <unistd.h>

#include "guest.h"

enum { FREEZE = 0x505, WIRE = 0x5e9, FINISH = 0xf4, FW_CFG = 0x510, FW_CFG_DATA = 0x511 };
enum { FW_CFG_DIRECTORY = 0x19 };

bool in_guest, counted;

/*
 * The right to use ports is taken for each use and given back: a task that keeps it pays for it
 * in every context switch and fork, and that would be in every result.
 */
static void ports(bool open)
{
	static const char sorry[] = "ktax: iopl failed: the kernel needs CONFIG_X86_IOPL_IOPERM\n";

	if (iopl(open ? 3 : 0) && write(STDERR_FILENO, sorry, sizeof(sorry) - 1))
		for (;;)
			pause();
}

/*
 * Between the freeze and the stop of QEMU's clock there is a race: with the only CPU stopped, its
 * main loop may still advance virtual time to the next timer, the tick. So the tick must be over
 * before anything is measured: 15 ms of guest time are enough for 100 of them a second.
 */
void machine_freeze(void)
{
	uint64_t end = ticks() + 15000000;

	ports(true);
	outb(1, FREEZE);
	ports(false);
	wait_until(end);
}

/* Not insb() and outsb() of sys/io.h: those do not tell the compiler that memory is used. */
static void read_bytes(void *to, size_t length)
{
	__asm__ volatile("rep insb" : "+D"(to), "+c"(length) : "d"(FW_CFG_DATA) : "memory");
}

static void read_item(uint16_t item, void *to, size_t length)
{
	outw(item, FW_CFG);
	read_bytes(to, length);
}

/* The order is the file opt/ktax/order of fw_cfg, or orders; numbers there are big-endian. */
char *machine_order(char *text, size_t size)
{
	struct {
		uint32_t size;
		uint16_t item, reserved;
		char name[56];
	} file;
	uint32_t files;
	char *several = NULL;

	ports(true);
	read_item(FW_CFG_DIRECTORY, &files, sizeof(files));
	for (uint32_t i = 0; i < __builtin_bswap32(files); i++) {
		read_bytes(&file, sizeof(file));
		if (!strcmp(file.name, "opt/ktax/orders"))
			text = several = orders_memory(&size);
		else if (strcmp(file.name, "opt/ktax/order"))
			continue;
		uint32_t length = __builtin_bswap32(file.size);
		read_item(__builtin_bswap16(file.item), text, length < size ? length : size - 1);
		break;
	}
	ports(false);
	return several;
}

void machine_write(const char *text, size_t length)
{
	ports(true);
	__asm__ volatile("rep outsb" : "+S"(text), "+c"(length) : "d"(WIRE) : "memory");
	ports(false);
}

/* The host stops the machine at the first port; where none does, the second ends it. */
void machine_stop(void)
{
	ports(true);
	outb(1, FREEZE);
	outb(21, FINISH);
	for (;;)
		pause();
}
