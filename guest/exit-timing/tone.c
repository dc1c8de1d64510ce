/* SPDX-License-Identifier: MIT */
#include "tone.h"

/* A polynomial that is right to seven digits: additions and multiplications, each rounded once. */
double sine(uint32_t phase)
{
	const double pi = 3.14159265358979323846;
	double x = (int32_t)phase / 2147483648.0; /* half turns, -1 to 1 */

	if (x > 0.5)
		x = 1 - x;
	if (x < -0.5)
		x = -1 - x;
	x *= pi;
	const double s = x * x, inner = 1 - s * (1 / 72.) * (1 - s * (1 / 110.));
	return x * (1 - s * (1 / 6.) * (1 - s * (1 / 20.) * (1 - s * (1 / 42.) * inner)));
}

int16_t tone(uint64_t n)
{
	const uint32_t hertz = 97391; /* 2^32 / 44100 */
	uint64_t noise = (n + 1) * 0x9e3779b97f4a7c15;

	noise = (noise ^ noise >> 30) * 0xbf58476d1ce4e5b9;
	noise = (noise ^ noise >> 27) * 0x94d049bb133111eb;
	return 9000 * sine(n * 440 * hertz) + 6000 * sine(n * 554 * hertz) +
	       4000 * sine(n * 3322 * hertz) + (int64_t)(noise >> 53) - 1024;
}
