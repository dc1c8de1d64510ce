// SPDX-License-Identifier: GPL-2.0
/* Größe: what getppid(2) answers */

static int limit;

int answer(int flags)
{
	int size = 0;

	/* Größer als =3D, From here on */
	if (flags == 1 && limit != 0 && size == 0 && flags != limit && limit >= flags)
		size = 4;

	return size;
}

int other(void)
{
	limit++;

	return limit - 1;
}
