/* SPDX-License-Identifier: MIT */
/* `ktax-mark begin` and `ktax-mark end`: for scripts, the markers of ktax-mark.h. */
#include "ktax-mark.h"

static __attribute__((noreturn)) void leave(long status)
{
	__asm__ volatile("syscall" ::"a"(60l), "D"(status) : "rcx", "r11", "memory");
	__builtin_unreachable();
}

static int same(const char *one, const char *other)
{
	while (*one && *one == *other)
		one++, other++;
	return *one == *other;
}

__attribute__((noreturn, used)) void mark(const long *stack)
{
	char *const *argv = (char *const *)(stack + 1);

	if (stack[0] == 2 && same(argv[1], "begin")) {
		ktax_begin();
		leave(0);
	}
	if (stack[0] == 2 && same(argv[1], "end")) {
		ktax_end();
		leave(0);
	}
	leave(2);
}

__asm__(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall mark\n");
