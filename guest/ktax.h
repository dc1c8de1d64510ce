/* SPDX-License-Identifier: MIT */
/*
 * The guest's half of docs/wire.md and the whole contract of a workload.
 *
 * A workload is a run function in its family's file, workloads/FAMILY.c, and GROUP/NAME.toml in
 * the workloads/ of the source tree. Its run function does
 *
 *   set-up (not counted)  ->  some operations as warm-up (not counted)  ->  region_begin()
 *   ->  exactly o->ops operations  ->  region_end()  ->  sig() for each fact that proves the work
 *
 * measure() is all of that for an operation that fits in one function. Inside the region: no
 * stdio, nothing that may allocate, every result checked and counted in `failed`. Set-up that
 * does not succeed ends in fail(). Large static buffers are forbidden: a bss beyond 2 MiB could
 * become a huge page, and every fork would copy it.
 */
#ifndef KTAX_H
#define KTAX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

extern bool in_guest; /* false: a plain process for people and tests, answers on stdout */
extern bool counted;  /* by the exact engine: there is no honest clock, so answers say no times */

enum { NAME_MAX_LENGTH = 32, PARAMS_MAX = 12, PAGE = 4096 };

struct param {
	char name[NAME_MAX_LENGTH + 1];
	uint64_t value;
};

/* An order of the host. */
struct order {
	char name[NAME_MAX_LENGTH + 1];
	uint64_t ops, phase;
	unsigned params;
	struct param param[PARAMS_MAX];
};

struct workload {
	const char *name;
	void (*run)(const struct order *o);
};

/* One line registers a workload: the linker gathers the pointers between __start_ and __stop_. */
#define WORKLOAD(NAME, RUN) \
	static const struct workload workload_##RUN = { NAME, RUN }; \
	static const struct workload *const entry_##RUN \
	__attribute__((used, section("ktax_workloads"))) = &workload_##RUN

/*
 * A role is what this same program does when a workload executes it under another name, so that
 * no shell, compiler or tool of the machine is needed. It returns its exit status.
 */
struct role {
	const char *name;
	int (*run)(int argc, char **argv);
};

#define ROLE(NAME, RUN) \
	static const struct role role_##RUN = { "role:" NAME, RUN }; \
	static const struct role *const role_entry_##RUN \
	__attribute__((used, section("ktax_roles"))) = &role_##RUN

/* init.c: the path to execute with argv[0] = "role:NAME" */
extern const char *role_program;
const char *hello_program(void); /* the tiny static program that only exits */

/* order.c: the parameter, or `otherwise` where the order has none of that name */
uint64_t param(const struct order *o, const char *name, uint64_t otherwise);

/* init.c: the number behind ktax.NAME= on the boot line, else 0 */
uint64_t boot_param(const char *name);

/* wire.c: lines to the host; SAY joins its strings to one line */
#define SAY(...) say((const char *const[]){ __VA_ARGS__, NULL })
void say(const char *const *words);
void wire_write(const char *text, size_t length);
void say_number(const char *before, uint64_t value);
void sig(const char *name, uint64_t value);   /* a fact that proves the work: never differs */
void value(const char *name, uint64_t value); /* what was seen, beside what was to be done */
void fail(const char *what) __attribute__((noreturn)); /* fail WHAT: strerror(errno) */
void finish(int status) __attribute__((noreturn));

/* region.c; op returns 0 for a success, `what` names the successes in the signature */
extern uint64_t region_start, region_ticks;
extern uint64_t region_faults; /* minor faults of this process in the Region */
void region_enter(void);        /* clocks and counters, outside the markers */
void region_leave(void);
extern uint64_t boot_ticks; /* when this program began, since power-on; only where in_guest */
void measure(const struct order *o, uint64_t warm_up, int (*op)(void), const char *what);
uint64_t faults(void);   /* minor faults of this process so far */
char *pages(uint64_t n); /* n fresh 4 KiB pages that start on a 2 MiB boundary, none touched */

/* tools.c: processes without the fork handlers of the C library */
pid_t child(void);               /* as fork(), but only exit and exec are safe in the child */
pid_t worker(void);              /* a child that waits for others: it dies with its parent */
bool child_succeeded(pid_t pid); /* waits */
int child_round(void);           /* an operation: fork, exit, wait */
pid_t child_echo(int in, int out, int close_fd); /* sends every byte back until end of file */

/*
 * scratch.c: the one directory that a workload may write to, below $TMPDIR natively. It goes with
 * everything in it when the workload ends, however it ends.
 */
const char *scratch_directory(void);
const char *scratch(void);       /* a file in it, not yet made */
/* The first of so many keys for IPC objects, which go too. */
int scratch_keys(uint32_t count);

/* Seven-byte NOPs that the plugin knows by their immediate (docs/wire.md, Markers). */
#define KTAX_MARK(ID) __asm__ volatile(".byte 0x0f, 0x1f, 0x80; .long " #ID ::: "memory")

static inline uint64_t ticks(void)
{
	uint32_t low, high;
	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high)::"memory");
	return (uint64_t)high << 32 | low;
}

static inline __attribute__((always_inline)) void region_begin(void)
{
	region_enter();
	region_start = ticks();
	KTAX_MARK(0x4b540001);
}

static inline __attribute__((always_inline)) void region_end(void)
{
	KTAX_MARK(0x4b540002);
	region_ticks = ticks() - region_start;
	region_leave();
}

#endif
