/* SPDX-License-Identifier: MIT */
/* The first process of a KVM host within QEMU: what it does on every architecture. */
#ifndef HOST_H
#define HOST_H

#include <linux/kvm.h>
#include <stddef.h>
#include <stdint.h>

/* A virtual machine with one processor, and memory at one place. */
struct guest {
	int vm, vcpu;
	struct kvm_run *run;
	unsigned char *memory;
};

/* Mounts what there is, and makes the console the output. */
void host_begin(void);
/* Says that all went well, and switches the machine off. */
_Noreturn void host_end(void);

/* The result of what must not fail: or else the machine goes off, and says of what. */
long must(long result, const char *what);
/* Between a line with a title and one that ends it: the content of a file. */
void show(const char *title, const char *path);
/* Takes the same time for the same number: it moves what follows against the timer tick. */
void spin(unsigned long iterations);
/* `text` into a file of the kernel's. */
void put(const char *path, const char *text);

struct guest guest_create(uint64_t address, size_t memory);
/* A file of KVM's about the guest, below debugfs. */
const char *guest_file(const struct guest *guest, const char *name);
/*
 * Runs the guest until it writes to `end`, or calls it: what else it says is of no consequence. A
 * processor that waits goes on at a signal, of which one comes `every_us`; 0 is never.
 */
void guest_run(const struct guest *guest, uint64_t end, long every_us);

/* The events of KVM and of the scheduler. */
void trace_begin(void);
void trace_end(void);

#endif
