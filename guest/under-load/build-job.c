/* SPDX-License-Identifier: MIT */
/* The job as a whole: what it needs, and the proof that it was done. */
#include <fcntl.h>
#include <unistd.h>

#include "build.h"

void build_prepare(const struct order *o)
{
	char name[PATH_BYTES];

	build_configure(o);
	if (chdir(scratch_directory()))
		fail("chdir");
	build_tree(build.headers);
	if (!build_run(build.jobs) || unlink("out/linked"))
		fail("warm-up");
	for (uint64_t unit = 0; unit < build.jobs; unit++)
		if (unlink(build_path(name, "out/", unit, ".o")))
			fail("warm-up");
}

/* Each object tells what its unit did; all of them, one after the other, is what ld has to make. */
void build_say(bool made)
{
	static char object[OBJECT];
	const struct evidence *of = (void *)object;
	struct evidence all = { 0 };
	int fd = open("out/linked", O_RDONLY);

	for (; read(fd, object, OBJECT) == OBJECT; all.hash = build_hash(all.hash, object, OBJECT)) {
		all.units += of->units;
		all.headers += of->headers;
		all.missed += of->missed;
		all.bytes += of->bytes;
		all.pages += of->pages;
	}
	sig("units", all.units);
	sig("failed", !made);
	sig("headers", all.headers);
	sig("missed", all.missed);
	sig("read-bytes", all.bytes);
	sig("touched-pages", all.pages);
	sig("linked-bytes", lseek(fd, 0, SEEK_END));
	sig("hash", all.hash >> 1); /* fits an integer of TOML */
	close(fd);
}
