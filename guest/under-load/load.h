/* SPDX-License-Identifier: MIT */
/* Work beside the job: processes that go on until they are told to stop, and count what they do. */
#ifndef KTAX_LOAD_H
#define KTAX_LOAD_H

#include <sys/stat.h>

#include "build.h"

enum { FOR_EACH_JOB = 4, PROCESSES_MAX = FOR_EACH_JOB * JOBS_MAX };

struct load {
	uint64_t (*prepare)(uint64_t mib); /* returns how many counts contest calls one */
	void (*run)(unsigned process); /* until load_goes_on() says no; earlier for an error */
	void (*release)(void); /* of a load of FOR_EACH_JOB processes: what they alone may keep */
};

extern const struct load load_process, load_ctar, load_xtar, load_io, load_read, load_list;
extern const struct load load_mem;

struct load_seen { uint64_t count, cpu_us, nanoseconds; };

/* load.c: between start and stop nothing may end the main process, or files of the load stay */
void load_share(void);
bool load_goes_on(void); /* said by a load after each thing that counts */
/* Returns when it has counted something, and not before `lead_ms`. */
void load_start(const struct load *load, uint64_t lead_ms);
struct load_seen load_look(void);
bool load_moves(uint64_t count); /* waits until it has counted more; false: it has ended instead */
void load_stop(void);

/* load-files.c */
enum { BLOCK = 64 << 10 };
extern char load_block[BLOCK];

/* load-list.c: visits all below the directory `at`, which has room for LOAD_PATH bytes */
enum { LOAD_PATH = 256 };
typedef bool load_visit(const char *name, const struct stat *s); /* false: no more */
bool load_walk(char *at, load_visit *visit);
uint64_t load_entries(uint64_t mib);

#endif
