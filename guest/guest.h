/* SPDX-License-Identifier: MIT */
/* What the workloads do not see: how the parts of the guest hang together. */
#ifndef KTAX_GUEST_H
#define KTAX_GUEST_H

#include "ktax.h"

/* boot.c: before the Snapshot */
void boot(void);
void ignored(const char *parameter);
void hello(void);

/* cmdline.c: returns unless the boot line says ktax.never=1 or 2 */
void never(void);

/* clock.c */
void delay(uint64_t iterations);
void wait_until(uint64_t end);

/* machine.c: the ports; only where in_guest */
void machine_freeze(void);
/* Zeroed text, which stays so where there is no order; NULL, or where several are, to be timed. */
char *machine_order(char *text, size_t size);
void machine_write(const char *text, size_t length);
void machine_stop(void) __attribute__((noreturn));

/* orders.c */
char *orders_memory(size_t *size); /* zeroed */
void orders_run(char *text) __attribute__((noreturn));
bool orders_is_one(int argc, char **argv); /* whether this process is for one of them: argv[1] */

/* settings.c */
void settings_note(void);
void settings_restore(void);

/* order.c */
const char *order_parse(struct order *o, char *text); /* NULL, or what is wrong */
bool order_set(struct order *o, const char *name, const char *value);
bool order_name(char *to, const char *name);

/* scratch.c */
void scratch_share(void);
void scratch_remove(void);
void scratch_sweep(void); /* what another process of this guest has left, which died */

/* keys.c, for scratch.c */
void keys_share(void);
void keys_remove(void);
void keys_sweep(void);

/* janitor.c */
void janitor_start(void);
void *janitor_shared(void *own, size_t size); /* what it sees; in a guest, which has none, own */

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
