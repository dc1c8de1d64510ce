/* SPDX-License-Identifier: MIT */
/* The eighteen jobs of high-systime, and the users of the machine who do them. */
#ifndef KTAX_JOBS_H
#define KTAX_JOBS_H

#include "ktax.h"

enum { JOBS = 18 };

struct job {
	const char *name;
	unsigned weight;
	const char *(*run)(void); /* NULL, or the step that failed; errno says why */
};

/* A user's entry in memory that all of them share. */
struct user {
	uint64_t work[JOBS]; /* what was done, in the unit of the job: files, bytes, forks ... */
	uint64_t jobs, end;  /* how many; when the last was done, in microseconds */
	pid_t pid;
	int job, error;      /* the job that came last, and its errno */
	const char *step;    /* of it that failed */
} __attribute__((aligned(128))); /* no line of the cache belongs to two */

/* jobs.c */
extern const struct job jobs[JOBS];
bool jobs_each(void);              /* each job once */
bool jobs_round(uint64_t *random); /* each as often as a user does it, in random order */

/* jobs-user.c */
void jobs_prepare(uint64_t users, bool sleep);  /* fixtures: once, before there are users */
void jobs_user(struct user *u, unsigned number); /* this process is that user from here on */
void jobs_rewind(void);                         /* the sizes of messages start anew */
bool job_do(unsigned which);                    /* false: a step failed */
void job_blame(const struct user *u) __attribute__((noreturn)); /* fail() with that step */

/* multi-user-process.c */
extern struct user *user; /* one more than there are users, for the warm-up */
extern uint64_t users;
pid_t user_begin(uint64_t number); /* 0 in the user */
void user_reap(void);              /* waits for one, whichever */
void users_give_up(const struct user *u, const char *what) __attribute__((noreturn));

/* multi-user-say.c */
uint64_t users_clock(void); /* of a clock that only goes on */
void multi_user_say(uint64_t start);

/*
 * What a job finds: whose it is, where to count what it did, and where in the cycle of sizes its
 * last message was. It runs in the scratch directory.
 */
extern unsigned user_number, *job_cycle;
extern int user_key; /* of System V IPC */
extern uint64_t *job_done;

/* The jobs, by file, and what they use of each other's. */
const char *creat_clo(void), *link_test(void);
void list_prepare(void);
void job_digits(char *end, unsigned number); /* five of them, up to there */
const char *dir_rtns_1(void);
const char *brk_test(void), *page_test(void), *shared_memory(void);
void misc_prepare(void);
const char *misc_rtns_1(void);
const char *fork_test(void), *signal_test(void);
int child_error(pid_t pid); /* waits; 0, or what it exits with, which is an errno */
bool child_did(pid_t pid);  /* waits, also for others, of which there is none */
void shell_prepare(bool sleep);
const char *exec_test(void), *shell_list(void), *shell_sleep(void);
const char *pipe_cpy(void), *stream_pipe(void), *dgram_pipe(void);
size_t message_size(void);
const char *send_and_close(int to, int from, unsigned messages);
const char *tcp_test(void), *udp_test(void);

#endif
