/* SPDX-License-Identifier: MIT */
/* The eighteen jobs of high-systime. Each runs in the scratch directory. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "jobs.h"

unsigned user_number;
int user_key;
uint64_t *job_done;
unsigned *job_cycle;

/* Jobs that list a directory: one of our own, since those of a machine are unlike another's. */
enum { FILES = 1000 };

static char entries[32768]; /* what the C library asks for at once */
static const struct dirent64 *entry(long at)
{
	return (const struct dirent64 *)(entries + at);
}

/* Writes five digits, up to `end`. */
static void job_digits(char *end, unsigned number)
{
	for (unsigned i = 0; i < 5; i++, number /= 10)
		*--end = '0' + number % 10;
}

static void list_prepare(void)
{
	char name[] = "list/file-00000";

	if (mkdir("list", 0700))
		fail("mkdir");
	for (unsigned i = 0; i < FILES; i++) {
		job_digits(name + sizeof(name) - 1, i);
		int fd = creat(name, 0600);
		if (fd < 0 || close(fd))
			fail("creat");
	}
}

/* Ten thousand entries, from the start again after the last. */
static const char *dir_rtns_1(void)
{
	unsigned seen = 0;
	int fd = open("list", O_RDONLY | O_DIRECTORY);

	if (fd < 0)
		return "open";
	while (seen < 10000) {
		long filled = syscall(SYS_getdents64, fd, entries, sizeof(entries));
		if (filled < 0)
			return "getdents";
		if (!filled && syscall(SYS_lseek, fd, 0, SEEK_SET))
			return "lseek";
		for (long at = 0; at < filled && seen < 10000; at += entry(at)->d_reclen)
			seen++;
	}
	*job_done += seen;
	return close(fd) ? "close" : NULL;
}

/* As `ls -l`: reads the names, and the status of each. Fails where one is missing. */
static int ls(int argc, char **argv)
{
	unsigned files = 0;
	int fd = argc == 2 ? open(argv[1], O_RDONLY | O_DIRECTORY) : -1;
	long filled;
	struct stat s;

	while ((filled = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0)
		for (long at = 0; at < filled; at += entry(at)->d_reclen)
			if (entry(at)->d_name[0] != '.')
				files += !syscall(SYS_newfstatat, fd, entry(at)->d_name, &s,
						  AT_SYMLINK_NOFOLLOW);
	if (files == FILES)
		return 0;
	return errno ? errno : ENODATA;
}
ROLE("jobs-ls", ls);

/*
 * Jobs that make names and take them away. All users work in one directory, as they do in the
 * original: its lock is part of the load.
 */
static const char *creat_clo(void)
{
	char name[] = "creat-00000";

	job_digits(name + sizeof(name) - 1, user_number);
	for (unsigned i = 0; i < 1000; i++) {
		long fd = syscall(SYS_creat, name, 0777);
		if (fd < 0 || syscall(SYS_close, fd))
			return "creat";
		++*job_done;
	}
	return unlink(name) ? "unlink" : NULL;
}

/* A file and seven more links to it, each of which goes and comes again nine times. */
static const char *link_test(void)
{
	enum { LINKS = 7, ROUNDS = 9 };
	char file[] = "link-00000", name[LINKS][sizeof("link-00000-0")];

	job_digits(file + sizeof(file) - 1, user_number);
	int fd = creat(file, 0777);
	if (fd < 0 || close(fd))
		return "creat";
	for (unsigned i = 0; i < LINKS; i++) {
		const char suffix[] = { '-', '0' + i, 0 };
		strcat(strcpy(name[i], file), suffix);
		if (syscall(SYS_link, file, name[i]))
			return "link";
		++*job_done;
	}
	for (unsigned i = 0; i < LINKS * ROUNDS; i++) {
		if (syscall(SYS_unlink, name[i % LINKS]))
			return "unlink";
		if (syscall(SYS_link, file, name[i % LINKS]))
			return "link";
		++*job_done;
	}
	for (unsigned i = 0; i < LINKS; i++)
		if (syscall(SYS_unlink, name[i]))
			return "unlink";
	return unlink(file) ? "unlink" : NULL;
}

/* A job of a hundred processes, and one of a thousand signals. */

/* Waits; returns 0, or the exit status, which is an errno. */
static int child_error(pid_t pid)
{
	int status;

	if (pid < 0 || syscall(SYS_wait4, pid, &status, 0, NULL) != pid)
		return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Waits as a shell does: until there is nothing left to wait for. */
static bool child_did(pid_t pid)
{
	errno = child_error(pid);
	if (errno)
		return false;
	if (syscall(SYS_wait4, -1, NULL, 0, NULL) > 0 || errno != ECHILD)
		return false;
	errno = 0;
	return true;
}

static const char *fork_test(void)
{
	for (unsigned i = 0; i < 100; i++) {
		pid_t pid = child();
		if (!pid)
			syscall(SYS_exit_group, 0);
		if (!child_did(pid))
			return "a child";
		++*job_done;
	}
	return NULL;
}

static volatile sig_atomic_t caught;

static void handler(int number)
{
	signal(number, handler); /* again, as where a signal takes its handler away */
	caught++;
}

static const char *signal_test(void)
{
	const pid_t self = syscall(SYS_getpid);

	caught = 0;
	if (signal(SIGUSR2, handler) == SIG_ERR)
		return "signal";
	for (int i = 0; i < 1000; i++) {
		if (syscall(SYS_kill, self, SIGUSR2))
			return "kill";
		if (caught != i + 1)
			return "handler";
		++*job_done;
	}
	return NULL;
}

/* Jobs that send messages of cycling sizes to themselves: each is written, then read. */
#define SMALL_TO_LARGE 1, 3, 5, 7, 16, 32, 64, 512, 1024, 2048, 4096

static size_t message_size(void)
{
	static const unsigned short sizes[] = {
		SMALL_TO_LARGE, SMALL_TO_LARGE, 32, 32, 32, 32, 32, 32,
		512, 512, 512, 512, 512, 2048, 2048, 2048, 2048,
	};

	return sizes[(*job_cycle)++ % (sizeof(sizes) / sizeof(sizes[0]))];
}

static const char *send_and_close(int to, int from, unsigned messages)
{
	static char sent[PAGE], got[PAGE];

	for (unsigned i = 0; i < messages; i++) {
		size_t size = message_size(), have = 0;
		sent[0] = i;
		if (syscall(SYS_write, to, sent, size) != (long)size)
			return "write";
		while (have < size) {
			long n = syscall(SYS_read, from, got + have, size - have);
			if (n <= 0)
				return "read";
			have += n;
		}
		if (got[0] != sent[0])
			return "message";
		*job_done += size;
	}
	return close(to) || close(from) ? "close" : NULL;
}

static const char *pipe_cpy(void)
{
	int ends[2];

	if (pipe(ends))
		return "pipe";
	return send_and_close(ends[1], ends[0], 99);
}

static const char *pair(int type)
{
	int ends[2];

	if (socketpair(AF_UNIX, type, 0, ends))
		return "socketpair";
	return send_and_close(ends[0], ends[1], 99);
}

static const char *stream_pipe(void)
{
	return pair(SOCK_STREAM);
}

static const char *dgram_pipe(void)
{
	return pair(SOCK_DGRAM);
}

/* Messages over loopback. */

/* A socket on a port that the kernel chooses, and its address. */
static int bound(int type, struct sockaddr_in *address)
{
	socklen_t length = sizeof(*address);
	int fd = socket(AF_INET, type, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET };
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)address, length) ||
	    getsockname(fd, (struct sockaddr *)address, &length))
		return -1;
	return fd;
}

static const char *tcp_test(void)
{
	/* Reset at the end: thousands of users would else hold all ports in TIME_WAIT. */
	const struct linger reset = { .l_onoff = 1 };
	struct sockaddr_in address;
	int on = 1, listener = bound(SOCK_STREAM, &address), to = socket(AF_INET, SOCK_STREAM, 0);

	if (listener < 0 || listen(listener, 1))
		return "listen";
	if (connect(to, (struct sockaddr *)&address, sizeof(address)))
		return "connect";
	int from = accept(listener, NULL, NULL);
	if (from < 0 || close(listener))
		return "accept";
	if (setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    setsockopt(from, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    setsockopt(to, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)))
		return "setsockopt";
	return send_and_close(to, from, 89);
}

static const char *udp_test(void)
{
	/* A lost datagram ends the run instead of holding it for ever. */
	const struct timeval limit = { .tv_sec = 60 };
	struct sockaddr_in here, there;
	int to = bound(SOCK_DGRAM, &here), from = bound(SOCK_DGRAM, &there);

	if (to < 0 || from < 0 || connect(to, (struct sockaddr *)&there, sizeof(there)))
		return "connect";
	if (setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
		return "setsockopt";
	return send_and_close(to, from, 99);
}

/* Jobs on memory: the break, grown and shrunk by the bare call, and System V shared memory. */

/* Writes to every second cache line of a page. */
static unsigned dirty(uintptr_t page)
{
	for (unsigned byte = 0; byte < PAGE; byte += 128)
		*(volatile char *)(page + byte) = 1;
	return 1;
}

/*
 * One MiB more; from its end take 16 pages away and give them back one by one, and so on. Counts
 * the calls, or the pages that it dirties.
 */
static const char *grow(unsigned rounds, bool touch)
{
	const uintptr_t was = syscall(SYS_brk, 0);
	const uintptr_t top = ((was + PAGE - 1) & -PAGE) + (1 << 20), low = top - 16 * PAGE;

	errno = ENOMEM; /* the bare call only stays where it is */
	if ((uintptr_t)syscall(SYS_brk, top) != top)
		return "brk";
	for (unsigned i = 0; i < rounds; i++)
		for (uintptr_t at = low; at <= top; at += PAGE) {
			if ((uintptr_t)syscall(SYS_brk, at) != at)
				return "brk";
			if (!touch)
				++*job_done;
			else if (at > low)
				*job_done += dirty(at - PAGE);
		}
	return (uintptr_t)syscall(SYS_brk, was) == was ? NULL : "brk";
}

static const char *brk_test(void)
{
	return grow(1000, false);
}

static const char *page_test(void)
{
	return grow(100, true);
}

static int semaphore(int set, int change)
{
	struct sembuf operation = { .sem_op = change };

	return syscall(SYS_semop, set, &operation, 1);
}

static const char *shared_memory(void)
{
	enum { SIZE = 65536, ROUNDS = 100 };
	static char from[PAGE], to[PAGE];
	int segment, set;
	char *memory;

	segment = shmget(user_key, SIZE, IPC_CREAT | IPC_EXCL | 0600);
	if (segment < 0)
		return "shmget";
	set = semget(user_key, 1, IPC_CREAT | IPC_EXCL | 0600);
	if (set < 0 || syscall(SYS_semctl, set, 0, SETVAL, 1))
		return "semget";
	memory = shmat(segment, NULL, 0);
	if (memory == (void *)-1)
		return "shmat";
	for (unsigned i = 0; i < ROUNDS; i++) {
		size_t size = message_size();
		from[0] = i;
		if (semaphore(set, -1))
			return "semop";
		memcpy(memory, from, size);
		if (semaphore(set, 1) || semaphore(set, -1))
			return "semop";
		memcpy(to, memory, size);
		if (semaphore(set, 1))
			return "semop";
		if (to[0] != from[0])
			return "memory";
		*job_done += size;
	}
	if (shmdt(memory) || shmctl(segment, IPC_RMID, NULL))
		return "shmctl";
	return syscall(SYS_semctl, set, 0, IPC_RMID, 0) ? "semctl" : NULL;
}

/*
 * A job of small questions. Users and groups are looked up in files of our own, by the calls of
 * getpwnam() and its like; what never enters the kernel (getenv, ctermid) is left out.
 */
static void make(const char *path, const char *text)
{
	ssize_t length = strlen(text);
	int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);

	if (fd < 0 || write(fd, text, length) != length || close(fd))
		fail(path);
}

static void misc_prepare(void)
{
	make("passwd", "root:x:0:0:root:/root:/bin/sh\n"
		       "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
		       "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n");
	make("group", "root:x:0:\ndaemon:x:1:\nnogroup:x:65534:\n");
}

/* Finds root in the file; as there is one open anyway, asks whether it is a terminal. */
static bool root_is_in(const char *path)
{
	static char text[PAGE];
	struct termios t;
	struct stat s;
	long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || syscall(SYS_fstat, fd, &s) ||
	    syscall(SYS_read, fd, text, sizeof(text)) != s.st_size || strncmp(text, "root:", 5))
		return false;
	return syscall(SYS_ioctl, fd, TCGETS, &t) && !syscall(SYS_close, fd);
}

static const char *misc_rtns_1(void)
{
	static const int plain[] = { SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid,
				     SYS_getpid, SYS_getpgrp, SYS_getppid };
	static char text[PAGE];
	struct timespec clock;
	struct utsname name;
	struct tms times;

	for (unsigned i = 0; i < 10; i++) {
		for (size_t p = 0; p < sizeof(plain) / sizeof(plain[0]); p++)
			if (syscall(plain[p]) < 0)
				return "get...";
		if (syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &clock))
			return "clock";
		if (syscall(SYS_getcwd, text, sizeof(text)) <= 0)
			return "getcwd";
		if (syscall(SYS_getgroups, 0, NULL) < 0)
			return "getgroups";
		if (syscall(SYS_times, &times) < 0)
			return "times";
		if (syscall(SYS_uname, &name))
			return "uname";
		if (!root_is_in("passwd") || !root_is_in("passwd") || !root_is_in("group"))
			return "passwd";
		++*job_done;
	}
	return NULL;
}

/*
 * Jobs that execute what the original has as a shell, a script and `ls -l` or `sleep`: roles of
 * this program, so that no machine's shell is measured.
 */

/* Each takes the path of what it executes and the words of that; it exits with 0 or an errno. */
static char *list_words[] = { "role:jobs-sh", NULL, "role:jobs-script", NULL,
			      "role:jobs-ls", "list", NULL };
static char *sleep_words[] = { "role:jobs-sh", NULL, "role:jobs-script", NULL,
			       "role:jobs-sleep", "0", NULL };

static int execute(const char *path, char **words)
{
	syscall(SYS_execve, path, words, (char *[]){ NULL });
	return errno;
}

static int sh(int argc, char **argv)
{
	return argc > 2 ? execute(argv[1], argv + 2) : EINVAL;
}
ROLE("jobs-sh", sh);

static int script(int argc, char **argv)
{
	pid_t pid = child();

	if (!pid)
		syscall(SYS_exit_group, sh(argc, argv));
	return child_error(pid);
}
ROLE("jobs-script", script);

static int snooze(int argc, char **argv)
{
	struct timespec t = { .tv_sec = argc == 2 ? argv[1][0] - '0' : 0 };

	return t.tv_sec && syscall(SYS_nanosleep, &t, NULL) ? errno : 0;
}
ROLE("jobs-sleep", snooze);

static void shell_prepare(bool sleep)
{
	list_words[1] = list_words[3] = sleep_words[1] = sleep_words[3] = (char *)role_program;
	if (sleep)
		sleep_words[5] = "5";
	if (access(role_program, X_OK))
		fail(role_program);
}

static const char *exec_test(void)
{
	for (unsigned i = 0; i < 5; i++) {
		pid_t pid = child();
		if (!pid)
			syscall(SYS_exit_group, execute(role_program, list_words + 2));
		if (!child_did(pid))
			return "a script that lists";
		++*job_done;
	}
	return NULL;
}

/* A child that calls system(): a child of its own for the shell, and the wait for it. */
static const char *shell(char **words, const char *what)
{
	pid_t pid = child();

	if (!pid) {
		pid = child();
		if (!pid)
			syscall(SYS_exit_group, execute(role_program, words));
		syscall(SYS_exit_group, child_error(pid));
	}
	if (!child_did(pid))
		return what;
	++*job_done;
	return NULL;
}

static const char *shell_list(void)
{
	return shell(list_words, "a shell that lists");
}

static const char *shell_sleep(void)
{
	return shell(sleep_words, "a shell that sleeps");
}

/* Names and weights are those of AIM7's high_systime. */
const struct job jobs[JOBS] = {
	{ "pipe-cpy", 30, pipe_cpy },
	{ "creat-clo", 20, creat_clo },
	{ "brk-test", 20, brk_test },
	{ "exec-test", 20, exec_test },
	{ "link-test", 20, link_test },
	{ "page-test", 20, page_test },
	{ "shell-rtns-1", 20, shell_list },
	{ "dgram-pipe", 10, dgram_pipe },
	{ "dir-rtns-1", 10, dir_rtns_1 },
	{ "fork-test", 10, fork_test },
	{ "misc-rtns-1", 10, misc_rtns_1 },
	{ "shared-memory", 10, shared_memory },
	{ "signal-test", 10, signal_test },
	{ "stream-pipe", 10, stream_pipe },
	{ "tcp-test", 10, tcp_test },
	{ "udp-test", 10, udp_test },
	{ "shell-rtns-2", 10, shell_sleep },
	{ "shell-rtns-3", 10, shell_list },
};

void fixtures_prepare(bool sleep)
{
	list_prepare();
	misc_prepare();
	shell_prepare(sleep);
}
