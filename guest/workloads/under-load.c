/* SPDX-License-Identifier: MIT */
/*
 * The job of buildlike while one load runs, and how far the load came in that time: a kernel that
 * starves the load would otherwise look fast. The load is at work before the Region begins.
 *
 * A load counts in shared memory and is told there to stop. Its processes are children of the main
 * process, die with it, and are waited for after the Region, so that their time is not the job's.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build.h"
#include "tools.h"

enum { FOR_EACH_JOB = 4, PROCESSES_MAX = FOR_EACH_JOB * JOBS_MAX };

struct load {
	uint64_t (*prepare)(uint64_t mib); /* returns how many counts contest calls one */
	void (*run)(unsigned process); /* until load_goes_on() says no; earlier for an error */
	void (*release)(void); /* of a load of FOR_EACH_JOB processes: what they alone may keep */
};

struct load_seen { uint64_t count, cpu_us, nanoseconds; };

static volatile struct { uint64_t count; bool stop; int error; } *shared;
static pid_t pids[PROCESSES_MAX];
static unsigned processes;

static void load_share(void)
{
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail("mmap");
}

/* Called by a load after each thing that counts. */
static bool load_goes_on(void)
{
	__atomic_fetch_add(&shared->count, 1, __ATOMIC_RELAXED);
	return !shared->stop;
}

static bool start(const struct load *load)
{
	pid_t pid = worker();

	if (!pid) {
		errno = 0;
		load->run(processes);
		if (!shared->stop)
			shared->error = errno;
		syscall(SYS_exit_group, !shared->stop);
	}
	if (pid > 0)
		pids[processes++] = pid;
	else
		shared->error = errno;
	return pid > 0;
}

/* Waits until it has counted beyond `count`, and so long at least; false where it has ended. */
static bool moves(uint64_t count, uint64_t least_ms)
{
	siginfo_t end = { .si_pid = 0 };
	bool runs = true;

	for (uint64_t ms = 0; runs && (shared->count <= count || ms < least_ms); ms++) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		runs = !waitid(P_PID, pids[0], &end, WEXITED | WNOHANG | WNOWAIT) && !end.si_pid;
	}
	return runs;
}

/* Waits until it has counted more; false: it has ended instead. */
static bool load_moves(uint64_t count)
{
	return moves(count, 0);
}

static void load_stop(void)
{
	bool good = true;

	shared->stop = true;
	for (unsigned i = 0; i < processes; i++)
		good &= child_succeeded(pids[i]);
	errno = shared->error;
	if (!good)
		fail("the load");
}

/*
 * Returns when the load has counted something, and not before `lead_ms`. From here to load_stop()
 * nothing may end the main process, or files of the load stay.
 */
static void load_start(const struct load *load, uint64_t lead_ms)
{
	unsigned wanted = load->release ? FOR_EACH_JOB * build.jobs : 1;
	bool runs = true;

	shared->count = 0; /* prepare() may have counted, too */
	while (runs && processes < wanted)
		runs = start(load);
	if (load->release)
		load->release();
	if (runs && moves(0, lead_ms))
		return;
	load_stop();
	fail("the load");
}

static struct load_seen load_look(void)
{
	struct load_seen seen = { .count = shared->count, .nanoseconds = nanoseconds() };
	clockid_t clock;

	for (unsigned i = 0; i < processes; i++)
		if (!clock_getcpuclockid(pids[i], &clock))
			seen.cpu_us += nanoseconds_of(clock) / 1000;
	return seen;
}

/*
 * Some processes for each job in a ring of pipes, and one chunk for each job on its way round it:
 * context switches and nothing else. One that ends closes its pipes, which ends its neighbours.
 */
enum { CHUNK = 256 };

static int ring[PROCESSES_MAX][2];
static unsigned ring_length;

static void keep_pipes(unsigned in, unsigned out)
{
	for (unsigned i = 0; i < ring_length; i++) {
		if (i != in)
			close(ring[i][0]);
		if (i != out)
			close(ring[i][1]);
	}
}

static uint64_t process_prepare(uint64_t mib)
{
	const char chunk[CHUNK] = { 0 };

	(void)mib;
	ring_length = FOR_EACH_JOB * build.jobs;
	for (unsigned i = 0; i < ring_length; i++)
		if (pipe(ring[i]))
			fail("pipe");
	for (unsigned i = 0; i < ring_length; i += FOR_EACH_JOB)
		if (write(ring[i][1], chunk, CHUNK) != CHUNK)
			fail("pipe");
	return 10000;
}

static void process_run(unsigned process)
{
	unsigned next = (process + 1) % ring_length;
	char chunk[CHUNK];

	signal(SIGPIPE, SIG_IGN);
	keep_pipes(process, next);
	while (read(ring[process][0], chunk, CHUNK) == CHUNK && load_goes_on())
		if (write(ring[next][1], chunk, CHUNK) != CHUNK)
			return;
}

static void process_release(void)
{
	keep_pipes(ring_length, ring_length);
}

static const struct load load_process = { process_prepare, process_run, process_release };

/* The loads that write a file and that read one, over and over. */
enum { BLOCK = 64 << 10 };

static char load_block[BLOCK];
static uint64_t blocks;

static uint64_t io_prepare(uint64_t mib)
{
	blocks = (mib << 20) / BLOCK;
	return (100 << 20) / BLOCK; /* 100 MiB */
}

/* Zeros; when the file is full it begins anew. */
static void io_run(unsigned process)
{
	int fd = open("zeros", O_CREAT | O_WRONLY | O_APPEND, 0600);

	(void)process;
	while (!ftruncate(fd, 0))
		for (uint64_t n = 0; n < blocks; n++)
			if (write(fd, load_block, BLOCK) != BLOCK || !load_goes_on())
				return;
}

static const struct load load_io = { io_prepare, io_run, NULL };

static uint64_t read_prepare(uint64_t mib)
{
	uint64_t per = io_prepare(mib);
	int fd = open("data", O_CREAT | O_WRONLY, 0600);

	for (uint64_t n = 0; n < blocks; n++)
		if (write(fd, load_block, BLOCK) != BLOCK)
			fail("data");
	if (fsync(fd) || close(fd))
		fail("data");
	return per;
}

/* contest's file is as large as memory; this one is let go after each pass, where it has a disk. */
static void read_run(unsigned process)
{
	int fd = open("data", O_RDONLY);

	(void)process;
	while (!lseek(fd, 0, SEEK_SET) && !posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		for (uint64_t n = 0; n < blocks; n++)
			if (read(fd, load_block, BLOCK) != BLOCK || !load_goes_on())
				return;
}

static const struct load load_read = { read_prepare, read_run, NULL };

/* Lists the job's headers over and over, as ls -lR does. */
enum { LOAD_PATH = 256 };

/* Is called for all below a directory; false: no more. */
typedef bool load_visit(const char *name, const struct stat *s);

static bool load_walk(char *path, load_visit *visit);

static bool visit_entry(char *at, const char *name, load_visit *visit)
{
	char *end = at + strlen(at);
	struct stat s;

	if (!strcmp(name, ".") || !strcmp(name, ".."))
		return true;
	strcpy(stpcpy(end, "/"), name);
	bool good = !lstat(at, &s) && visit(at, &s) && (!S_ISDIR(s.st_mode) || load_walk(at, visit));
	*end = 0;
	return good;
}

/* The path of the directory has room for LOAD_PATH bytes. */
static bool load_walk(char *at, load_visit *visit)
{
	_Alignas(struct dirent64) char found[4096];
	int fd = open(at, O_RDONLY | O_DIRECTORY);
	long length = 1;

	while (length > 0) {
		length = syscall(SYS_getdents64, fd, found, sizeof(found));
		for (long i = 0; i < length; ) {
			struct dirent64 *d = (void *)(found + i);
			if (!visit_entry(at, d->d_name, visit)) {
				close(fd);
				return false;
			}
			i += d->d_reclen;
		}
	}
	return !length & !close(fd);
}

static uint64_t load_entries(uint64_t mib)
{
	(void)mib;
	return build.headers + SEARCHED;
}

static bool listed(const char *name, const struct stat *s)
{
	(void)name, (void)s;
	return load_goes_on();
}

static void list_run(unsigned process)
{
	char at[LOAD_PATH];

	(void)process;
	while (load_walk(strcpy(at, "include"), listed))
		;
}

static const struct load load_list = { load_entries, list_run, NULL };

/* Loads that pack the job's headers into one file, or unpack that, over and over: tar-shaped. */
enum { RECORD = 512 };

/* Before each entry, whose content is padded to a whole record; one without a name is the end. */
struct header {
	char name[LOAD_PATH];
	uint64_t size, directory;
	char rest[RECORD - LOAD_PATH - 16];
};

static int archive;

static ssize_t padded(uint64_t size)
{
	return (size + RECORD - 1) / RECORD * RECORD;
}

static bool pack_entry(const char *name, const struct stat *s)
{
	struct header h = { .directory = S_ISDIR(s->st_mode) };
	ssize_t length = 0;

	strcpy(h.name, name);
	if (!h.directory) {
		length = padded(h.size = s->st_size);
		if (length > BLOCK || !build_read(name, load_block, h.size))
			return false;
	}
	return write(archive, &h, RECORD) == RECORD &&
	       write(archive, load_block, length) == length && load_goes_on();
}

static bool pack(void)
{
	const struct header end = { .name = "" };
	char at[LOAD_PATH];

	archive = open("archive", O_CREAT | O_TRUNC | O_WRONLY, 0600);
	return archive >= 0 && load_walk(strcpy(at, "include"), pack_entry) &&
	       write(archive, &end, RECORD) == RECORD && !close(archive);
}

static void ctar_run(unsigned process)
{
	(void)process;
	while (pack())
		;
}

static const struct load load_ctar = { load_entries, ctar_run, NULL };

static bool unpack_entry(const struct header *h)
{
	ssize_t length = padded(h->size);

	if (h->directory)
		return (!mkdir(h->name, 0700) || errno == EEXIST) && load_goes_on();
	if (length > BLOCK || read(archive, load_block, length) != length)
		return false;
	return (!unlink(h->name) || errno == ENOENT) &&
	       build_write(h->name, load_block, h->size) && load_goes_on();
}

static uint64_t xtar_prepare(uint64_t mib)
{
	if (!pack() || mkdir("unpacked", 0700) || mkdir("unpacked/include", 0700))
		fail("archive");
	return load_entries(mib);
}

static void xtar_run(unsigned process)
{
	struct header h = { .name = "" };

	(void)process;
	archive = open("archive", O_RDONLY);
	if (chdir("unpacked"))
		return;
	while (!lseek(archive, 0, SEEK_SET))
		while (read(archive, &h, RECORD) == RECORD && h.name[0])
			if (!unpack_entry(&h))
				return;
}

static const struct load load_xtar = { xtar_prepare, xtar_run, NULL };

/* Refers to memory so that neither caches nor the TLB help: never to one page twice in a row. */
enum { ROWS = 256, CACHE_LINE = 64 };

static volatile char *memory;
static uint64_t columns;

static uint64_t mem_prepare(uint64_t mib)
{
	columns = (mib << 20) / PAGE / ROWS;
	memory = pages(columns * ROWS);
	return 1000 * columns * ROWS; /* a thousand times all of it */
}

/* The pages of a matrix by columns; each pass takes the next line of every page. */
static void mem_run(unsigned process)
{
	for (uint64_t pass = process;; pass++)
		for (uint64_t column = 0; column < columns; column++)
			for (uint64_t row = 0; row < ROWS; row++) {
				memory[(row * columns + column) * PAGE + pass * CACHE_LINE % PAGE]++;
				if (pass && !load_goes_on()) /* the first pass makes the pages */
					return;
			}
}

static const struct load load_mem = { mem_prepare, mem_run, NULL };

enum { NONE_COLD = 1 };

static const struct load *const loads[] = {
	NULL, NULL, /* none, none-cold */
	&load_process, &load_ctar, &load_xtar, &load_io, &load_read, &load_list, &load_mem,
};

static uint64_t children_us(void)
{
	struct rusage used;

	getrusage(RUSAGE_CHILDREN, &used);
	return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000ull +
	       used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}

static void under_load_run(const struct order *o)
{
	uint64_t kind = param(o, "load", 0), mib = param(o, "mib", 8), per = 0;

	errno = EINVAL;
	if (kind >= sizeof(loads) / sizeof(*loads) || !mib)
		fail("load");
	const struct load *load = loads[kind];
	build_prepare(o);
	load_share();
	if (kind == NONE_COLD)
		build_cold(build.headers);
	if (load) {
		per = load->prepare(mib);
		load_start(load, param(o, "lead-ms", 0));
	}
	uint64_t job_us = children_us();
	struct load_seen before = load_look();
	region_begin();
	bool made = build_run(o->ops);
	region_end();
	struct load_seen after = load_look();
	job_us = children_us() - job_us;
	/* One that is starved, or waits for a disk, has a count of zero; it goes on, or it is broken. */
	bool moved = load && (after.count > before.count || (!counted && load_moves(before.count)));
	load_stop();
	if (made && load && !moved)
		fail("the load did no work");
	build_say(made);
	sig("load-moved", moved);
	value("load-count", after.count - before.count);
	value("load-per", per);
	if (counted)
		return;
	value("load-ns", after.nanoseconds - before.nanoseconds);
	value("load-cpu-us", after.cpu_us - before.cpu_us);
	value("job-cpu-us", job_us);
}

WORKLOAD("under-load", under_load_run);
