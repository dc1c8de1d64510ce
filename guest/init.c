/* SPDX-License-Identifier: MIT */
/* The program starts here: as /init of the guest, or by hand as `ktax-guest NAME ops=N …`. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

extern const struct workload *const __start_ktax_workloads[], *const __stop_ktax_workloads[];
extern const struct role *const __start_ktax_roles[], *const __stop_ktax_roles[];
extern char **environ;

const char *role_program;

/* Reads ktax.NAME=N from the boot line. A control's Sides differ by such a number. */
uint64_t boot_param(const char *name)
{
	static char line[4096];
	static const char prefix[] = " ktax.";
	int fd = open("/proc/cmdline", O_RDONLY);
	ssize_t length = read(fd, line + 1, sizeof(line) - 2);
	uint64_t value = 0;

	close(fd);
	line[0] = ' ';
	line[length > 0 ? length + 1 : 1] = 0;
	for (const char *at = line; (at = strstr(at, prefix)); ) {
		at += sizeof(prefix) - 1;
		if (strncmp(at, name, strlen(name)) || at[strlen(name)] != '=')
			continue;
		for (at += strlen(name) + 1; *at >= '0' && *at <= '9'; at++)
			value = value * 10 + (*at - '0');
	}
	return value;
}

/* Finds this program, in a guest and natively. */
static void role_find(void)
{
	static char self[4096];

	role_program = "/init";
	if (in_guest)
		return;
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		fail("/proc/self/exe");
	role_program = self;
}

/* Natively: $KTAX_HELLO, or ktax-hello beside this program. */
const char *hello_program(void)
{
	static char beside[4096 + sizeof("ktax-hello")];
	const char *named = getenv("KTAX_HELLO");

	if (in_guest)
		return "/bin/hello";
	if (named)
		return named;
	strcpy(beside, role_program);
	strcpy(strrchr(beside, '/') + 1, "ktax-hello");
	return beside;
}

static int role_run(int argc, char **argv)
{
	for (const struct role *const *r = __start_ktax_roles; r < __stop_ktax_roles; r++)
		if (!strcmp((*r)->name, argv[0]))
			return (*r)->run(argc, argv);
	return 127;
}

/*
 * Moves the timer tick: executes exactly two instructions for each iteration. Under icount the TSC
 * counts instructions, so waiting is exact to the instruction.
 */
static void delay(uint64_t iterations)
{
	if (iterations)
		__asm__ volatile("1: dec %0; jnz 1b" : "+r"(iterations)::"cc");
}

static const struct workload *find(const char *name)
{
	for (const struct workload *const *w = __start_ktax_workloads; w < __stop_ktax_workloads; w++)
		if (!strcmp((*w)->name, name))
			return *w;
	return NULL;
}

static __attribute__((noreturn)) void reject(const char *why)
{
	SAY("fail order: ", why);
	finish(1);
}

static void run(const struct order *o)
{
	const struct workload *w = find(o->name);

	if (!w)
		reject("no such workload in this guest");
	SAY("start ", o->name);
	if (strcmp(o->name, "symbols"))
		cpus_start();
	if (strcmp(o->name, "program") && strcmp(o->name, "symbols"))
		hooks_prepare_rows();
	delay(o->phase);
	if (!counted)
		counters_open();
	w->run(o);
	usage_say();
	/* Without icount the TSC is time, and equal answers would differ. */
	if (counted && region_ticks)
		say_number("tsc ", region_ticks);
	SAY("end");
	finish(0);
}

static void run_text(char *text)
{
	static struct order order;
	const char *wrong = order_parse(&order, text);

	if (wrong)
		reject(wrong);
	run(&order);
}

/* The kernel passes parameters that it does not know to init. Most of them are misspelled. */
static void ignored(const char *parameter)
{
	SAY("ignored ", parameter);
}

static void run_guest(char **argv)
{
	static char text[4096]; /* the longest order */
	char *orders;

	/*
	 * The kernel passes unknown boot parameters to init as arguments and environment, which
	 * moves the stack. So init executes itself again without them. The kernel always sets
	 * HOME and TERM, so an empty environment means that this is done.
	 */
	in_guest = true;
	counted = true;
	boot_ticks = ticks();
	KTAX_MARK(0x4b540002); /* ends a Region that the plugin began at the kernel's start */
	role_find();
	if (argv[1] || environ[0]) {
		SAY("ktax 1");
		for (char **word = argv + 1; *word; word++)
			ignored(*word);
		for (char **word = environ; *word; word++)
			if (strncmp(*word, "HOME=", 5) && strncmp(*word, "TERM=", 5))
				ignored(*word);
		execve("/init", (char *[]){ "/init", NULL }, (char *[]){ NULL });
	}
	boot();
	janitor_share();
	hello();
	machine_freeze();
	orders = machine_order(text, sizeof(text));
	if (orders)
		orders_run(orders);
	SAY("ktax 1");
	run_text(text);
}

/* Runs one of several orders, as a plain process of a guest. */
static void run_one(char *text)
{
	in_guest = true;
	signal(SIGPIPE, SIG_IGN);
	role_find();
	janitor_share();
	run_text(text);
}

static void list(void)
{
	for (const struct workload *const *w = __start_ktax_workloads; w < __stop_ktax_workloads; w++)
		if (strncmp((*w)->name, "bad-", 4))
			SAY((*w)->name);
	finish(0);
}

int main(int argc, char **argv)
{
	static struct order order = { .ops = 1 };

	/* In a container this program can be PID 1, too. Only the kernel calls it /init. */
	if (getpid() == 1 && argc > 0 && !strcmp(argv[0], "/init"))
		run_guest(argv);
	if (orders_is_one(argc, argv))
		run_one(argv[1]);
	if (argc > 0 && !strncmp(argv[0], "role:", 5))
		return role_run(argc, argv);
	signal(SIGPIPE, SIG_IGN); /* wire_write() notices a closed stdout and cleans up */
	if (argc < 2)
		list();
	SAY("ktax 1");
	if (!order_name(order.name, argv[1]))
		reject("a name is [a-z0-9-], at most 32 of them");
	for (int i = 2; i < argc; i++) {
		char *value = argv[i], *name = strsep(&value, "=");
		if (!value || !order_set(&order, name, value))
			reject("arguments are NAME ops=N PARAM=N ..., all decimal");
	}
	role_find();
	janitor_start();
	run(&order);
}
