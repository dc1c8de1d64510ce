/* SPDX-License-Identifier: MIT */
/*
 * What an audio encoder does with each frame of 1152 samples, reduced to its arithmetic: a Fourier
 * transform of 1024 of them, and 32 cosine transforms of 36. The checksum is of every bit of every
 * result; SSE2 rounds each operation alike on every machine.
 */
#include <string.h>

#include "ktax.h"
#include "tone.h"

enum { FRAME = 1152, FRAMES = 64, SIZE = 1024, IN = 36, OUT = 18, BANDS = FRAME / IN };

static double re[SIZE], im[SIZE], cosine[SIZE / 2], minus_sine[SIZE / 2], matrix[OUT][IN];
static int16_t (*signal)[FRAME];
static uint64_t frame, checksum;

static void make_tables(void)
{
	const uint64_t turn = 1ul << 32; /* of sine() */

	for (uint32_t i = 0; i < SIZE / 2; i++) {
		cosine[i] = sine(i * (turn / SIZE) + turn / 4);
		minus_sine[i] = -sine(i * (turn / SIZE));
	}
	for (uint32_t out = 0; out < OUT; out++)
		for (uint32_t in = 0; in < IN; in++) {
			uint32_t angle = (2 * in + 1 + OUT) * (2 * out + 1);
			matrix[out][in] = sine(angle * (turn / (4 * IN)) + turn / 4);
		}
}

static void make_signal(void)
{
	signal = (void *)pages((sizeof(*signal) * FRAMES + PAGE - 1) / PAGE);
	for (uint64_t n = 0; n < FRAMES; n++)
		for (uint64_t i = 0; i < FRAME; i++)
			signal[n][i] = tone(n * FRAME + i);
}

static void add(double result)
{
	uint64_t bits;

	memcpy(&bits, &result, sizeof(bits));
	checksum = (checksum ^ bits) * 1099511628211;
}

static void fourier(const int16_t *in)
{
	for (uint32_t i = 0, reversed = 0; i < SIZE; i++) {
		re[reversed] = in[i];
		im[reversed] = 0;
		uint32_t bit = SIZE / 2; /* one more, with the carry to the right */
		for (; reversed & bit; bit /= 2)
			reversed ^= bit;
		reversed ^= bit;
	}
	for (uint32_t half = 1; half < SIZE; half *= 2)
		for (uint32_t i = 0; i < SIZE; i += 2 * half)
			for (uint32_t a = i, b = i + half, w = 0; a < i + half; a++, b++) {
				double x = re[b] * cosine[w] - im[b] * minus_sine[w];
				double y = re[b] * minus_sine[w] + im[b] * cosine[w];
				re[b] = re[a] - x;
				im[b] = im[a] - y;
				re[a] += x;
				im[a] += y;
				w += SIZE / 2 / half;
			}
	for (uint32_t i = 0; i < SIZE; i++)
		add(re[i] * re[i] + im[i] * im[i]);
}

static void cosines(const int16_t *in)
{
	for (uint32_t band = 0; band < BANDS; band++)
		for (uint32_t out = 0; out < OUT; out++) {
			double sum = 0;
			for (uint32_t i = 0; i < IN; i++)
				sum += in[i * BANDS + band] * matrix[out][i];
			add(sum);
		}
}

static int op(void)
{
	fourier(signal[frame % FRAMES]);
	cosines(signal[frame++ % FRAMES]);
	return 0;
}

static void fp_stream_run(const struct order *o)
{
	make_tables();
	make_signal();
	measure(o, 2, op, "frames");
	sig("checksum", checksum >> 1); /* 63 bits, as the files of workloads have */
}

WORKLOAD("fp-stream", fp_stream_run);
