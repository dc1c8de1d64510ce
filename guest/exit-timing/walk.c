/* SPDX-License-Identifier: MIT */
/*
 * Looks at every entry of a tree: opens each directory, reads it, and asks for the state of what
 * is in it. The tree is generated, or the machine's image would be measured instead of its kernel.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ktax.h"
#include "tree.h"

static const char *path;
static struct tree made;

static int op(void)
{
	struct tree seen = { 0 };
	int root = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY);

	tree_walk(root, &seen);
	syscall(SYS_close, root);
	return memcmp(&seen, &made, sizeof(seen)) != 0;
}

static void walk_run(const struct order *o)
{
	path = scratch_directory();
	int root = open(path, O_RDONLY | O_DIRECTORY);
	if (root < 0)
		fail(path);
	made = tree_make(root, param(o, "directories", 20), param(o, "files", 50));
	close(root);
	measure(o, 2, op, "walks");
	sig("files", made.files);
	sig("directories", made.directories);
	sig("recordings", made.recordings);
	sig("bytes", made.bytes);
}

WORKLOAD("walk", walk_run);
