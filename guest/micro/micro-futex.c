/* SPDX-License-Identifier: MIT */
/* Waiting and waking where nobody waits, by the call and by the locks that are made of it. */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "micro.h"

static uint32_t word;
static int own; /* FUTEX_PRIVATE_FLAG: the kernel need not ask which page it is */
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int own_word(void)
{
	own = FUTEX_PRIVATE_FLAG;
	return 0;
}

static int wake_nobody(void)
{
	return syscall(SYS_futex, &word, FUTEX_WAKE | own, 1, NULL, NULL, 0) != 0;
}

static int wait_for_another_value(void)
{
	return syscall(SYS_futex, &word, FUTEX_WAIT | own, word + 1, NULL, NULL, 0) != -1 ||
	       errno != EAGAIN;
}

static int free_semaphore(void)
{
	return sem_init(&semaphore, 0, 1);
}

static int down_up(void)
{
	return sem_wait(&semaphore) || sem_post(&semaphore);
}

static int lock_unlock(void)
{
	return pthread_mutex_lock(&mutex) || pthread_mutex_unlock(&mutex);
}

static void micro_futex_run(const struct order *o)
{
	static const struct micro calls[] = {
		{ "futex1", wake_nobody, NULL, NULL },
		{ "futex2", wait_for_another_value, NULL, NULL },
		{ "futex3", wake_nobody, own_word, NULL },
		{ "futex4", wait_for_another_value, own_word, NULL },
		{ "posix-semaphore1", down_up, free_semaphore, NULL },
		{ "pthread-mutex1", lock_unlock, NULL, NULL },
	};

	MICRO(o, 1000, calls);
}

WORKLOAD("micro-futex", micro_futex_run);
