// SPDX-License-Identifier: GPL-2.0
/* Größe: what getppid(2) answers */

static int limit;

int answer(int flags)
{
	int size = 0;

	if (flags == 1)
		size = 2;

	return size;
}

int other(void)
{
	return limit;
}
