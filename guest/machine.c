/* SPDX-License-Identifier: MIT */
/* The ports by which the guest talks to the host: docs/wire.md. */
#include <string.h>
#include <sys/io.h>
#include <unistd.h>

#include "freeze.h"
#include "guest.h"

enum { FREEZE = 0x505, WIRE = 0x5e9, FINISH = 0xf4, FW_CFG = 0x510, FW_CFG_DATA = 0x511 };
enum { FW_CFG_DIRECTORY = 0x19 };

bool in_guest, counted;

/*
 * Takes or gives back the right to use ports. A task that keeps the right pays for it in every
 * context switch and fork, and every result would include that.
 */
static void ports(bool open)
{
	static const char sorry[] = "ktax: iopl failed: the kernel needs CONFIG_X86_IOPL_IOPERM\n";

	if (iopl(open ? 3 : 0) && write(STDERR_FILENO, sorry, sizeof(sorry) - 1))
		for (;;)
			pause();
}

void machine_freeze(void)
{
	ports(true);
	standstill();
	ports(false);
}

/*
 * insb() and outsb() of sys/io.h do not tell the compiler that they use memory. KVM reads the port
 * before it writes to memory: if a page is missing or is still shared after a fork, the guest
 * faults, and the bytes are lost. So the pages are written first.
 */
static void read_bytes(void *to, size_t length)
{
	memset(to, 0, length);
	__asm__ volatile("rep insb" : "+D"(to), "+c"(length) : "d"(FW_CFG_DATA) : "memory");
}

static void read_item(uint16_t item, void *to, size_t length)
{
	outw(item, FW_CFG);
	read_bytes(to, length);
}

/* The order is the fw_cfg file opt/ktax/order or opt/ktax/orders; its numbers are big-endian. */
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
			text = several = machine_orders_memory(&size);
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

/* The host stops the machine at the first port. Without a host, the second port ends it. */
void machine_stop(void)
{
	ports(true);
	outb(1, FREEZE);
	outb(21, FINISH);
	for (;;)
		pause();
}
