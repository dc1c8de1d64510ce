/* SPDX-License-Identifier: MIT */
/* The interfaces between the parts of the guest, which workloads do not use. */
#ifndef KTAX_GUEST_H
#define KTAX_GUEST_H

#include "ktax.h"

/* boot.c: before the Snapshot */
void boot(void);
void hello(void);
void cpus_start(void); /* before each run: the CPUs that hello() stopped */

/* disk.c: modules, and a file system; failures are said between `release` and `ready` */
void disk(void);
void disk_settle(void); /* after the set-up */
void settings_note(void);
void settings_restore(void);
/*
 * Writes pairs of a file and its text, up to NULL; a directory is made where there is no text. What
 * cannot be written is said, and ends it.
 */
bool settings_write(char *const *pairs);

/* rooted.c: hooks, commands of the user's beside a workload */
void hooks_setup(void);        /* before the Snapshot; failures are said, as above */
void hooks_prepare_rows(void); /* before each run */

/*
 * freeze.c: returns when the kernel is idle, or after five seconds. Then it calls `busy` for the
 * tasks that still ran.
 */
void quiet(void (*busy)(const char *task));
void standstill(void); /* the host stops the machine here; the caller may use ports */

/* wire.c: the ports; only where in_guest */
void machine_freeze(void);
/*
 * Reads the order into `text`, which is zeroed and stays so if there is no order. Returns NULL; or
 * several orders, to be timed, in memory of their own.
 */
char *machine_order(char *text, size_t size);
char *machine_orders_memory(size_t *size); /* in order.c: zeroed, for several orders */
void machine_stop(void) __attribute__((noreturn));
void before_end(void); /* in scratch.c: finish() calls it first */
void wire_share(void *shared); /* an int that the processes of a workload share */
bool wire_failed(void); /* whether one of them reports why it failed: nothing may follow */
void wire_forget(void); /* before the next of several orders */

/* order.c */
const char *order_parse(struct order *o, char *text); /* NULL, or what is wrong */
bool order_set(struct order *o, const char *name, const char *value);
bool order_name(char *to, const char *name);
void orders_run(char *text) __attribute__((noreturn));
bool orders_is_one(int argc, char **argv); /* whether this process is for one of them: argv[1] */

/* scratch.c */
void scratch_sweep(void); /* removes what a process of this guest left that was killed */
void janitor_share(void); /* puts what is to be removed into memory that the janitor sees */
void janitor_start(void);

/* region.c */
void usage_say(void);
void counters_want(bool want);
void counters_open(void); /* before the first worker, to be inherited */

#endif
