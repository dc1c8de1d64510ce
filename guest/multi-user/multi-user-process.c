/* SPDX-License-Identifier: MIT */
/* The processes of the users: how they begin, and how they end. */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jobs.h"

struct user *user;
uint64_t users;

/* No user outlives a run that fails: it could still make files while their directory goes. */
void users_give_up(const struct user *u, const char *what)
{
	int error = errno;

	for (uint64_t i = 0; i <= users; i++)
		if (user[i].pid > 0)
			kill(user[i].pid, SIGKILL);
	while (syscall(SYS_wait4, -1, NULL, 0, NULL) > 0)
		;
	if (u && u->step)
		job_blame(u);
	errno = error;
	fail(what);
}

pid_t user_begin(uint64_t number)
{
	pid_t pid = worker();

	if (pid < 0)
		users_give_up(NULL, "a process for each user");
	if (pid)
		user[number].pid = pid;
	else
		jobs_user(&user[number], number);
	return pid;
}

void user_reap(void)
{
	int status;
	pid_t pid = syscall(SYS_wait4, -1, &status, 0, NULL);
	uint64_t i = 0;

	if (pid < 0)
		users_give_up(NULL, "wait");
	while (i < users && user[i].pid != pid)
		i++;
	user[i].pid = 0;
	errno = ECANCELED;
	if (status)
		users_give_up(&user[i], "a user who was killed");
}
