/* SPDX-License-Identifier: MIT */
/* Loads of the tables of exit timings: arithmetic, hashes, a walk over files, a boot. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"

/*
 * The signal of two workloads: equal on every machine, which no mathematical library is. This is a
 * polynomial that is right to seven digits: additions and multiplications, each rounded once. A
 * whole turn is 2^32.
 */
static double sine(uint32_t phase)
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

/* Sample n of a chord with some noise, 44100 of them a second. */
static int16_t tone(uint64_t n)
{
	const uint32_t hertz = 97391; /* 2^32 / 44100 */
	uint64_t noise = (n + 1) * 0x9e3779b97f4a7c15;

	noise = (noise ^ noise >> 30) * 0xbf58476d1ce4e5b9;
	noise = (noise ^ noise >> 27) * 0x94d049bb133111eb;
	return 9000 * sine(n * 440 * hertz) + 6000 * sine(n * 554 * hertz) +
	       4000 * sine(n * 3322 * hertz) + (int64_t)(noise >> 53) - 1024;
}

/*
 * The arithmetic of an audio encoder for each frame of 1152 samples: a Fourier
 * transform of 1024 of them, and 32 cosine transforms of 36. The checksum is of every bit of every
 * result; SSE2 rounds each operation alike on every machine.
 */
enum { SAMPLES = 1152, FRAMES = 64, SIZE = 1024, IN = 36, OUT = 18, BANDS = SAMPLES / IN };

static double re[SIZE], im[SIZE], cosine[SIZE / 2], minus_sine[SIZE / 2], matrix[OUT][IN];
static int16_t (*signal)[SAMPLES];
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
		for (uint64_t i = 0; i < SAMPLES; i++)
			signal[n][i] = tone(n * SAMPLES + i);
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

static int encode_frame(void)
{
	fourier(signal[frame % FRAMES]);
	cosines(signal[frame++ % FRAMES]);
	return 0;
}

static void fp_stream_run(const struct order *o)
{
	make_tables();
	make_signal();
	measure(o, 2, encode_frame, "frames");
	sig("checksum", checksum >> 1); /* 63 bits, as the files of workloads have */
}

WORKLOAD("fp-stream", fp_stream_run);

/*
 * Linear hashing: whenever a bucket has FILL keys on average, one more bucket is made, and takes
 * its keys from the one that had them so far. No step rebuilds the table.
 */
struct hash_slot {
	char key[16]; /* padded with zeros */
	uint64_t value;
};

enum { HASH_SLOTS = 10 };

/* A bucket is a chain of these. */
struct hash_page {
	struct hash_page *next;
	uint64_t used;
	struct hash_slot slot[HASH_SLOTS];
};

struct hash_table {
	struct hash_page *bucket, *overflow, *free;
	uint64_t buckets, mask, keys;
};

enum { FILL = 8 };

/* The hash of Fowler, Noll and Vo, which Berkeley DB has by default. */
static uint32_t hash_of(const char key[16])
{
	uint32_t hash = 2166136261;

	for (size_t i = 0; i < 16 && key[i]; i++)
		hash = hash * 16777619 ^ (uint8_t)key[i];
	return hash;
}

/* Makes a table with room for so many keys. */
static void hash_make(struct hash_table *t, uint64_t keys)
{
	const uint64_t in_page = PAGE / sizeof(struct hash_page), buckets = keys / FILL + 1;

	/* twice as many more for chains: before its turn to split, a bucket has up to 2 * FILL keys */
	*t = (struct hash_table){ .bucket = (void *)pages(3 * buckets / in_page + 3), .buckets = 1 };
	t->overflow = t->bucket + buckets;
}

static struct hash_page *bucket_of(struct hash_table *t, const char *key)
{
	uint64_t n = hash_of(key) & t->mask;

	return t->bucket + (n < t->buckets ? n : n & t->mask >> 1);
}

static struct hash_page *page_with_room(struct hash_table *t, struct hash_page *p)
{
	for (; p->used == HASH_SLOTS; p = p->next) {
		if (p->next)
			continue;
		p->next = t->free ? t->free : t->overflow++;
		t->free = p->next->next;
		p->next->next = NULL;
	}
	return p;
}

static struct hash_slot *append(struct hash_table *t, const struct hash_slot *s)
{
	struct hash_page *p = page_with_room(t, bucket_of(t, s->key));

	p->slot[p->used] = *s;
	return &p->slot[p->used++];
}

static void split(struct hash_table *t)
{
	if (t->buckets > t->mask)
		t->mask = 2 * t->mask + 1;
	struct hash_page *from = t->bucket + (t->buckets++ & t->mask >> 1), old = *from, *p = &old;
	from->used = 0;
	from->next = NULL;
	while (p) {
		struct hash_page *next = p->next;
		for (uint64_t i = 0; i < p->used; i++)
			append(t, &p->slot[i]);
		if (p != &old) {
			p->used = 0;
			p->next = t->free;
			t->free = p;
		}
		p = next;
	}
}

/* The value of a key; that of a new key is 0. */
static uint64_t *hash_value(struct hash_table *t, const char key[16])
{
	struct hash_slot new = { .value = 0 };

	for (struct hash_page *p = bucket_of(t, key); p; p = p->next)
		for (uint64_t i = 0; i < p->used; i++)
			if (!memcmp(p->slot[i].key, key, sizeof(new.key)))
				return &p->slot[i].value;
	if (t->keys++ >= FILL * t->buckets)
		split(t);
	memcpy(new.key, key, sizeof(new.key));
	return &append(t, &new)->value;
}

/*
 * A table of `keys` keys is walked in the order of its buckets, and each key's value is added to
 * that of the same key in a second table; the hashes themselves are hashed on. User code only:
 * all memory is there before the Region.
 */
static struct hash_table first, second;
static uint64_t digest;

static void key_of(uint64_t i, char key[16])
{
	char digits[20], *at = digits + sizeof(digits);

	do
		*--at = '0' + i % 10;
	while (i /= 10);
	memset(key, 0, 16);
	memcpy(key, "foo_", 4);
	memcpy(key + 4, at, digits + sizeof(digits) - at);
}

static int add_all(void)
{
	for (uint64_t n = 0; n < first.buckets; n++)
		for (struct hash_page *p = first.bucket + n; p; p = p->next)
			for (uint64_t i = 0; i < p->used; i++) {
				*hash_value(&second, p->slot[i].key) += p->slot[i].value;
				digest = (digest ^ hash_of(p->slot[i].key)) * 1099511628211;
			}
	return first.keys != second.keys;
}

static void hashes_run(const struct order *o)
{
	const uint64_t warm_up = 1; /* in which the second table grows */
	uint64_t keys = param(o, "keys", 10000), wrong = 0;
	char key[16];

	hash_make(&first, keys);
	hash_make(&second, keys);
	for (uint64_t i = 0; i < keys; i++) {
		key_of(i, key);
		*hash_value(&first, key) = i;
	}
	measure(o, warm_up, add_all, "rounds");
	for (uint64_t i = 0; i < keys; i++) {
		key_of(i, key);
		wrong += *hash_value(&second, key) != (warm_up + o->ops) * i;
	}
	sig("keys", second.keys);
	sig("wrong", wrong);
	sig("digest", digest >> 1); /* 63 bits, as the files of workloads have */
}

WORKLOAD("hashes", hashes_run);

/* Nothing is left to do: the Region ended where init began. */
static void kernel_boot_run(const struct order *o)
{
	(void)o;
	errno = ENOSYS;
	if (!in_guest || !counted)
		fail("the start of a kernel that already runs");
	region_ticks = boot_ticks;
	sig("boots", 1);
}

WORKLOAD("kernel-boot", kernel_boot_run);

/*
 * The MP3 encoder lame with its best preset, on a generated recording. It is a dynamic program of
 * the machine, so there is none in a guest: fp-stream stands in for it there.
 */
enum { RATE = 44100, CHANNELS = 2, BITS = 16, FRAME_BYTES = CHANNELS * BITS / 8, WAV_HEADER = 44 };

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
	const uint32_t bytes = frames * FRAME_BYTES;
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
	} header = { "RIFF", 36 + bytes, "WAVEfmt ", 16, 1, CHANNELS, RATE, RATE * FRAME_BYTES,
		     FRAME_BYTES, BITS, "data", bytes };
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

static int encode(void)
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
	measure(o, 1, encode, "encoded");
	if (stat(mp3, &encoded) || stat(wav, &made))
		fail(mp3);
	sig("wav-frames", (made.st_size - WAV_HEADER) / FRAME_BYTES);
	sig("whole", (uint64_t)encoded.st_size >= seconds * bytes_a_second);
	value("mp3-bytes", encoded.st_size);
}

WORKLOAD("lame", lame_run);

/* Content of a tree of files. */
struct tree {
	uint64_t directories, files, recordings, bytes, failed;
};

static void make_files(int directory, uint64_t files)
{
	char name[32];

	for (uint64_t i = 0; i < files; i++) {
		snprintf(name, sizeof(name), "%lu.%s", i, i ? "txt" : "wav");
		int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
		if (fd < 0 || ftruncate(fd, i + 1)) /* sizes without contents */
			fail("creat");
		close(fd);
	}
}

/* The directories in groups of 50; the first of the files in each is a recording. */
static struct tree make_tree(int root, uint64_t directories, uint64_t files)
{
	const uint64_t group = 50;
	char name[64];

	for (uint64_t i = 0; i < directories; i++) {
		snprintf(name, sizeof(name), "%lu", i / group);
		if (i % group == 0 && mkdirat(root, name, 0700))
			fail("mkdir");
		snprintf(name, sizeof(name), "%lu/%lu", i / group, i % group);
		if (mkdirat(root, name, 0700))
			fail("mkdir");
		int directory = openat(root, name, O_RDONLY | O_DIRECTORY);
		if (directory < 0)
			fail("open");
		make_files(directory, files);
		close(directory);
	}
	return (struct tree){
		.directories = directories + (directories + group - 1) / group,
		.files = directories * files,
		.recordings = directories,
		.bytes = directories * (files * (files + 1) / 2),
	};
}

static void walk_tree(int directory, struct tree *seen);

static void look(int parent, const char *name, struct tree *seen)
{
	struct stat st;

	if (syscall(SYS_newfstatat, parent, name, &st, AT_SYMLINK_NOFOLLOW)) {
		seen->failed++;
	} else if (S_ISDIR(st.st_mode)) {
		int directory = syscall(SYS_openat, parent, name, O_RDONLY | O_DIRECTORY);
		seen->directories++;
		walk_tree(directory, seen);
		syscall(SYS_close, directory);
	} else {
		seen->files++;
		seen->recordings += strstr(name, ".wav") != NULL;
		seen->bytes += st.st_size;
	}
}

/* As find does that must know more than names: no file type of the directory is believed. */
void walk_tree(int directory, struct tree *seen)
{
	char batch[4096] __attribute__((aligned(8)));
	long length;

	while ((length = syscall(SYS_getdents64, directory, batch, sizeof(batch))) > 0)
		for (long at = 0; at < length;) {
			const struct dirent64 *entry = (void *)(batch + at);
			at += entry->d_reclen;
			if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
				look(directory, entry->d_name, seen);
		}
	seen->failed += length < 0;
}

/*
 * Looks at every entry of a tree: opens each directory, reads it, and asks for the state of what
 * is in it. The tree is generated, or the machine's image would be measured instead of its kernel.
 */
static const char *path;
static struct tree made;

static int walk_once(void)
{
	struct tree seen = { 0 };
	int root = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY);

	walk_tree(root, &seen);
	syscall(SYS_close, root);
	return memcmp(&seen, &made, sizeof(seen)) != 0;
}

static void walk_run(const struct order *o)
{
	path = scratch_directory();
	int root = open(path, O_RDONLY | O_DIRECTORY);
	if (root < 0)
		fail(path);
	made = make_tree(root, param(o, "directories", 20), param(o, "files", 50));
	close(root);
	measure(o, 2, walk_once, "walks");
	sig("files", made.files);
	sig("directories", made.directories);
	sig("recordings", made.recordings);
	sig("bytes", made.bytes);
}

WORKLOAD("walk", walk_run);
