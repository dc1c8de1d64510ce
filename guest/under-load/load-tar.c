/* SPDX-License-Identifier: MIT */
/* Loads that pack the job's headers into one file, or unpack that, over and over: tar-shaped. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "load.h"

enum { RECORD = 512 };

/* Before each entry, whose content is padded to a whole record; one without a name is the end. */
struct header {
	char name[LOAD_PATH];
	uint64_t size, directory;
	char rest[RECORD - LOAD_PATH - 16];
};

static int archive;

static ssize_t padded(uint64_t size)
{
	return (size + RECORD - 1) / RECORD * RECORD;
}

static bool pack_entry(const char *name, const struct stat *s)
{
	struct header h = { .directory = S_ISDIR(s->st_mode) };
	ssize_t length = 0;

	strcpy(h.name, name);
	if (!h.directory) {
		length = padded(h.size = s->st_size);
		if (length > BLOCK || !build_read(name, load_block, h.size))
			return false;
	}
	return write(archive, &h, RECORD) == RECORD &&
	       write(archive, load_block, length) == length && load_goes_on();
}

static bool pack(void)
{
	const struct header end = { .name = "" };
	char at[LOAD_PATH];

	archive = open("archive", O_CREAT | O_TRUNC | O_WRONLY, 0600);
	return archive >= 0 && load_walk(strcpy(at, "include"), pack_entry) &&
	       write(archive, &end, RECORD) == RECORD && !close(archive);
}

static void ctar_run(unsigned process)
{
	(void)process;
	while (pack())
		;
}

const struct load load_ctar = { load_entries, ctar_run, NULL };

static bool unpack_entry(const struct header *h)
{
	ssize_t length = padded(h->size);

	if (h->directory)
		return (!mkdir(h->name, 0700) || errno == EEXIST) && load_goes_on();
	if (length > BLOCK || read(archive, load_block, length) != length)
		return false;
	return (!unlink(h->name) || errno == ENOENT) &&
	       build_write(h->name, load_block, h->size) && load_goes_on();
}

static uint64_t xtar_prepare(uint64_t mib)
{
	if (!pack() || mkdir("unpacked", 0700) || mkdir("unpacked/include", 0700))
		fail("archive");
	return load_entries(mib);
}

static void xtar_run(unsigned process)
{
	struct header h = { .name = "" };

	(void)process;
	archive = open("archive", O_RDONLY);
	if (chdir("unpacked"))
		return;
	while (!lseek(archive, 0, SEEK_SET))
		while (read(archive, &h, RECORD) == RECORD && h.name[0])
			if (!unpack_entry(&h))
				return;
}

const struct load load_xtar = { xtar_prepare, xtar_run, NULL };
