/* SPDX-License-Identifier: MIT */
/* The interfaces between the parts of the guest, which workloads do not use. */
#ifndef KTAX_GUEST_H
#define KTAX_GUEST_H

#include "ktax.h"

/* boot.c: before the Snapshot */
void boot(void);
void ignored(const char *parameter);
void hello(void);

/* disk.c: modules, and a file system; what fails is said between `release` and `ready` */
void disk(void);
void disk_settle(void);                 /* after the set-up */

/* cpus.c */
void cpus_stop(void);  /* before the Snapshot */
void cpus_start(void); /* before each run */

/* hooks.c: what the user lets run besides */
struct rooted;
void hooks_setup(void);                  /* before the Snapshot; what fails is said, as above */
void hooks_prepare(const struct rooted *r); /* before each run */
void hooks_prepare_rows(void);

/* cmdline.c: returns unless the boot line says ktax.never=1 or 2 */
void never(void);

/* clock.c */
void delay(uint64_t iterations);

/* machine.c: the ports; only where in_guest */
void machine_freeze(void);
/*
 * Reads the order into `text`, which is zeroed and stays so if there is no order. Returns NULL; or
 * several orders, to be timed, in memory of their own.
 */
char *machine_order(char *text, size_t size);
HOOK char *machine_orders_memory(size_t *size); /* in orders.c: zeroed, for several orders */
void machine_write(const char *text, size_t length);
void machine_stop(void) __attribute__((noreturn));

/* orders.c */
void orders_run(char *text) __attribute__((noreturn));
bool orders_is_one(int argc, char **argv); /* whether this process is for one of them: argv[1] */

/* wire.c */
HOOK void before_end(void); /* in scratch.c: what finish() does first */
void wire_share(void *shared); /* an int that the processes of a workload share */
bool wire_failed(void); /* whether somebody has said or says why: nothing may follow */
void wire_forget(void); /* before the next of several orders */

/* settings.c */
void settings_note(void);
void settings_restore(void);
/*
 * Writes pairs of a file and its text, up to NULL; a directory is made where there is no text. What
 * cannot be written is said, and ends it.
 */
bool settings_write(char *const *pairs);

/* order.c */
const char *order_parse(struct order *o, char *text); /* NULL, or what is wrong */
bool order_set(struct order *o, const char *name, const char *value);
bool order_name(char *to, const char *name);

/* scratch.c */
void scratch_sweep(void); /* removes what a process of this guest left that was killed */

/* keys.c, for scratch.c */
void keys_share(void);
void keys_remove(void);
void keys_sweep(void);

/* janitor.c */
void janitor_start(void);
void *janitor_shared(void *own, size_t size); /* memory that it sees; `own` in a guest */
HOOK void janitor_share(void); /* in scratch.c: puts what is to be removed into such memory */

/* usage.c, counters.c */
void usage_say(void);
void counters_want(bool want);
void counters_open(void); /* before the first worker, to be inherited */
void counters_start(void);
void counters_stop(void);
void counters_say(void);

/* role.c */
void role_find(void);
int role_run(int argc, char **argv);

#endif
