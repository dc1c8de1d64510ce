/* SPDX-License-Identifier: MIT */
/*
 * A guest without a kernel, whose four vCPUs want one lock. It says how often the lock was taken
 * when one of them came; a QEMU that runs each vCPU for another time than ktax asks for has another
 * share. With "unlocked" at the end of its command line nobody takes the lock, and the counter
 * loses what others count meanwhile.
 */
#include "ktax-mark.h"

enum { CPUS = 4, OTHERS = 0x8000, WIRE = 0x5e9, PANIC = 0x505 };

#define APIC(offset) (*(volatile unsigned *)(0xfee00000ul + (offset)))

extern char others[], others_end[];
extern volatile unsigned cpus, counter, contended[CPUS];
extern unsigned boot_info;
void work(unsigned cpu, unsigned is_locked);
void run(unsigned cpu);

static volatile unsigned is_locked = 1, go, done;

static void out(unsigned short port, unsigned char value)
{
	__asm__ volatile("outb %0, %1" ::"a"(value), "Nd"(port));
}

static void relax(void)
{
	__asm__ volatile("pause" ::: "memory");
}

static void print(const char *text)
{
	while (*text)
		out(WIRE, *text++);
}

static void say(const char *name, unsigned value)
{
	char digits[10];
	int count = 0;

	print(name);
	do {
		digits[count++] = '0' + value % 10;
	} while (value /= 10);
	while (count > 0)
		out(WIRE, digits[--count]);
	out(WIRE, '\n');
}

/* Of multiboot's information the fifth word: the address of the command line. */
static void read_command_line(void)
{
	const char *at = (const char *)(unsigned long)((const unsigned *)(unsigned long)boot_info)[4];
	const char *last = at;

	for (; *at; at++) {
		if (*at == ' ')
			last = at + 1;
	}
	is_locked = *last != 'u';
}

/* INIT, then a start at the page of that number, to all but this one. */
static void start_others(void)
{
	char *to = (char *)OTHERS;

	for (const char *from = others; from < others_end; from++)
		*to++ = *from;
	APIC(0xf0) = 0x1ff;
	APIC(0x300) = 0xc4500;
	for (int i = 0; i < 1000; i++)
		relax();
	APIC(0x300) = 0xc4600 | OTHERS >> 12;
	while (cpus < CPUS)
		relax();
}

static void finish(void)
{
	unsigned sum = 0;

	for (int i = 0; i < CPUS; i++)
		sum += contended[i];
	print("ktax 1\nstart self-test\n");
	say("sig contended ", sum);
	say("sig counter ", counter);
	print("end\n");
	out(PANIC, 1);
}

static void count_done(void)
{
	__asm__ volatile("lock incl %0" : "+m"(done)::"memory");
}

void run(unsigned cpu)
{
	if (cpu == 0) {
		read_command_line();
		start_others();
		ktax_begin();
		go = 1;
	}
	while (!go)
		relax();
	work(cpu, is_locked);
	count_done();
	while (done < CPUS)
		relax();
	if (cpu == 0) {
		ktax_end();
		finish();
	}
}
