/* SPDX-License-Identifier: MIT */
/*
 * The MP3 encoder lame with its best preset, on a generated recording. It is a dynamic program of
 * the machine, so there is none in a guest: fp-stream stands in for it there.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"
#include "tone.h"

enum { RATE = 44100, CHANNELS = 2, BITS = 16, FRAME = CHANNELS * BITS / 8, WAV_HEADER = 44 };

static char program[PATH_MAX], wav[PATH_MAX], mp3[PATH_MAX];

static void find_lame(void)
{
	const char *at = getenv("PATH");

	while (at && *at && !in_guest) {
		int length = strcspn(at, ":");
		snprintf(program, sizeof(program), "%.*s/lame", length, at);
		if (!access(program, X_OK))
			return;
		at += length + (at[length] == ':');
	}
	errno = ENOENT;
	fail("lame is not installed: install the package lame, or use fp-stream");
}

static void write_wav(uint64_t frames)
{
	const uint32_t bytes = frames * FRAME;
	struct {
		char riff[4];
		uint32_t rest;
		char wave_fmt[8];
		uint32_t format_bytes;
		uint16_t format, channels;
		uint32_t rate, bytes_a_second;
		uint16_t frame, bits;
		char data[4];
		uint32_t bytes;
	} header = { "RIFF", 36 + bytes, "WAVEfmt ", 16, 1, CHANNELS, RATE, RATE * FRAME, FRAME, BITS,
		     "data", bytes };
	FILE *file = fopen(wav, "w");

	if (!file || fwrite(&header, sizeof(header), 1, file) != 1)
		fail(wav);
	for (uint64_t i = 0; i < frames; i++) {
		int16_t frame[CHANNELS] = { tone(i), tone(i + RATE) };
		if (fwrite(frame, sizeof(frame), 1, file) != 1)
			fail(wav);
	}
	if (fclose(file))
		fail(wav);
}

static int op(void)
{
	char *arguments[] = { "lame", "--preset", "insane", "--quiet", wav, mp3, NULL };
	pid_t pid = child();

	if (!pid) {
		syscall(SYS_execve, program, arguments, (char *[]){ NULL });
		syscall(SYS_exit_group, 127);
	}
	return pid < 0 || !child_succeeded(pid);
}

static void lame_run(const struct order *o)
{
	const uint64_t bytes_a_second = 320000 / 8; /* of this preset */
	uint64_t seconds = param(o, "seconds", 10);
	struct stat encoded, made;

	find_lame();
	snprintf(wav, sizeof(wav), "%s/in.wav", scratch_directory());
	snprintf(mp3, sizeof(mp3), "%s/out.mp3", scratch_directory());
	write_wav(seconds * RATE);
	measure(o, 1, op, "encoded");
	if (stat(mp3, &encoded) || stat(wav, &made))
		fail(mp3);
	sig("wav-frames", (made.st_size - WAV_HEADER) / FRAME);
	sig("whole", (uint64_t)encoded.st_size >= seconds * bytes_a_second);
	value("mp3-bytes", encoded.st_size);
}

WORKLOAD("lame", lame_run);
