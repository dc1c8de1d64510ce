/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Code that is no function of its own: thunks, and what the compiler put apart. */
#ifndef KTAX_JUMPS_H
#define KTAX_JUMPS_H

/* At the first instruction of a thunk: twice its slot, and 1 if calls go through it. */
void ktax_on_thunk(unsigned int vcpu, void *data);

/* At a block of code that the compiler put apart, whose slot is `data`, and where it jumps back. */
void ktax_on_cold(unsigned int vcpu, void *data);
void ktax_on_jump_back(unsigned int vcpu, void *data);

#endif
