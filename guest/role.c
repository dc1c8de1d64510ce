/* SPDX-License-Identifier: MIT */
/* Finds this program and ktax-hello, in a guest and natively. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

extern const struct role *const __start_ktax_roles[], *const __stop_ktax_roles[];

const char *role_program;

void role_find(void)
{
	static char self[4096];

	role_program = "/init";
	if (in_guest)
		return;
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		fail("/proc/self/exe");
	role_program = self;
}

/* Natively: $KTAX_HELLO, or ktax-hello beside this program. */
const char *hello_program(void)
{
	static char beside[4096 + sizeof("ktax-hello")];
	const char *named = getenv("KTAX_HELLO");

	if (in_guest)
		return "/bin/hello";
	if (named)
		return named;
	strcpy(beside, role_program);
	strcpy(strrchr(beside, '/') + 1, "ktax-hello");
	return beside;
}

int role_run(int argc, char **argv)
{
	for (const struct role *const *r = __start_ktax_roles; r < __stop_ktax_roles; r++)
		if (!strcmp((*r)->name, argv[0]))
			return (*r)->run(argc, argv);
	return 127;
}
