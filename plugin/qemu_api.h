/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The few functions of QEMU's plugin API that ktax calls, declared here for API 1 (QEMU 7.2) to
 * API 5 (10.2).
 *
 * Everything that not every version has is weak: the dynamic linker leaves a missing one NULL, and
 * counters.c asks before it calls. So one shared object loads everywhere.
 */
#ifndef KTAX_QEMU_API_H
#define KTAX_QEMU_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KTAX_EXPORT __attribute__((visibility("default")))
#define KTAX_WEAK __attribute__((weak))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;

typedef struct {
    const char *target_name;
    struct {
        int min;
        int cur;
    } version;
    bool system_emulation;
    struct {
        int smp_vcpus;
        int max_vcpus;
    } system; /* valid when system_emulation */
} qemu_info_t;

typedef struct {
    struct qemu_plugin_scoreboard *score;
    size_t offset;
} qemu_plugin_u64;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS = 0, QEMU_PLUGIN_CB_R_REGS = 1 };
enum qemu_plugin_mem_rw {
    QEMU_PLUGIN_MEM_R = 1,
    QEMU_PLUGIN_MEM_W,
    QEMU_PLUGIN_MEM_RW,
};
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 = 0 };
enum qemu_plugin_cond { QEMU_PLUGIN_COND_GE = 7 };

typedef void (*qemu_plugin_tb_fn)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*qemu_plugin_vcpu_fn)(qemu_plugin_id_t id, unsigned int vcpu);
typedef void (*qemu_plugin_exit_fn)(qemu_plugin_id_t id, void *data);
typedef void (*qemu_plugin_exec_fn)(unsigned int vcpu, void *data);
typedef void (*qemu_plugin_mem_fn)(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
                                   void *data);

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id, qemu_plugin_vcpu_fn fn);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, qemu_plugin_tb_fn fn);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_plugin_exit_fn fn, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, qemu_plugin_exec_fn fn,
                                            enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_plugin_mem_fn fn,
                                      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw,
                                      void *data);

void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, qemu_plugin_exec_fn fn,
                                          enum qemu_plugin_cb_flags flags, void *data);

/* Within the callback of a memory access. */
struct qemu_plugin_hwaddr;
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *address);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address);

uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
/* Where it is in this process; NULL: not in memory. */
const void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn);

/*
 * Returns a pointer to the bytes and ignores the last two arguments up to QEMU 9.0; copies the
 * bytes to `to` and returns how many since 9.1. Called only through ktax_insn_bytes().
 */
uintptr_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t room);

/* API 1 only (QEMU up to 8.2): adds to any address. */
KTAX_WEAK void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn,
                                                          enum qemu_plugin_op op, void *to,
                                                          uint64_t imm);

/* API 2 and later (QEMU 9.0): adds to a scoreboard. */
KTAX_WEAK void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *insn,
                                                                   enum qemu_plugin_op op,
                                                                   qemu_plugin_u64 to,
                                                                   uint64_t imm);
KTAX_WEAK struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t size);
KTAX_WEAK void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score,
                                            unsigned int vcpu);

KTAX_WEAK void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *tb,
                                                                 enum qemu_plugin_op op,
                                                                 qemu_plugin_u64 to, uint64_t imm);
KTAX_WEAK void qemu_plugin_register_vcpu_tb_exec_cond_cb(struct qemu_plugin_tb *tb,
                                                         qemu_plugin_exec_fn fn,
                                                         enum qemu_plugin_cb_flags flags,
                                                         enum qemu_plugin_cond cond,
                                                         qemu_plugin_u64 of, uint64_t imm,
                                                         void *data);

/* API 2 and later: registers, in arrays of GLib. */
struct qemu_plugin_register;
typedef struct {
    struct qemu_plugin_register *handle;
    const char *name;
    const char *feature;
} qemu_plugin_reg_descriptor;
typedef struct {
    char *data;
    unsigned len;
} GArray;
typedef struct {
    uint8_t *data;
    unsigned len;
} GByteArray;
KTAX_WEAK GArray *qemu_plugin_get_registers(void);
KTAX_WEAK int qemu_plugin_read_register(struct qemu_plugin_register *handle, GByteArray *to);
KTAX_WEAK GByteArray *g_byte_array_new(void);
KTAX_WEAK GByteArray *g_byte_array_set_size(GByteArray *array, unsigned length);

/* API 4 (QEMU 9.2): memory, into an array of GLib. */
KTAX_WEAK bool qemu_plugin_read_memory_vaddr(uint64_t address, GByteArray *to, size_t length);

/* API 4 (QEMU 9.2): the clock. */
KTAX_WEAK const void *qemu_plugin_request_time_control(void);
KTAX_WEAK void qemu_plugin_update_ns(const void *handle, int64_t ns);

/* Not of the API: what QEMU exports for its modules, both or neither. */
KTAX_WEAK void cpu_exit(void *cpu);
KTAX_WEAK extern __thread void *current_cpu;

/* Never called; its presence says that this is QEMU 9.1 or later. */
KTAX_WEAK void qemu_plugin_register_vcpu_insn_exec_cond_cb(void);

/* What QEMU looks for in the plugin. */
extern KTAX_EXPORT int qemu_plugin_version;
KTAX_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                    char **argv);

#endif
