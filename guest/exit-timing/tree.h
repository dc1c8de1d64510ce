/* SPDX-License-Identifier: MIT */
/* tree.c: a tree of files, made and walked, and what is in it. */
#ifndef TREE_H
#define TREE_H

#include <stdint.h>

struct tree {
	uint64_t directories, files, recordings, bytes, failed;
};

struct tree tree_make(int root, uint64_t directories, uint64_t files);
void tree_walk(int directory, struct tree *seen);

#endif
