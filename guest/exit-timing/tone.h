/* SPDX-License-Identifier: MIT */
/* tone.c: a signal that is the same on every machine; no mathematical library is. */
#ifndef TONE_H
#define TONE_H

#include <stdint.h>

double sine(uint32_t phase); /* a whole turn is 2^32 */
int16_t tone(uint64_t n);    /* sample n of a chord with some noise, 44100 of them a second */

#endif
