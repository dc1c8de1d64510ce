/* SPDX-License-Identifier: MIT */
/*
 * ktax counts between these two, if a program executes each of them once. On any other machine they
 * do nothing: each is a seven-byte NOP. Copy this file into your program.
 */
#ifndef KTAX_MARK_H
#define KTAX_MARK_H

static inline __attribute__((always_inline)) void ktax_begin(void)
{
	__asm__ volatile(".byte 0x0f, 0x1f, 0x80, 0x01, 0x00, 0x54, 0x4b" ::: "memory");
}

static inline __attribute__((always_inline)) void ktax_end(void)
{
	__asm__ volatile(".byte 0x0f, 0x1f, 0x80, 0x02, 0x00, 0x54, 0x4b" ::: "memory");
}

#endif
