/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shadow stacks, the tree of paths, and the calls and returns that move a vCPU on it. */
#include "calls.h"

#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "cpus.h"
#include "stacks.h"

enum {
    STACKS = 1 << 14,
    DEPTH = 256,
};

static struct ktax_stack stacks[STACKS];
static const char *failed;

bool ktax_stack_grow(struct ktax_stack *stack)
{
    if (!stack->frames) {
        stack->frames = calloc(DEPTH, sizeof(*stack->frames));
        stack->room = stack->frames ? DEPTH : 0;
    }
    if (stack->depth == stack->room) {
        failed = "a stack is deeper than 256 calls";
    }
    return stack->depth < stack->room;
}

/* Its `block` is 0 if it was not known. */
static struct ktax_stack *find_stack(uint64_t block)
{
    size_t first = block * UINT64_C(0x9e3779b97f4a7c15) >> 50;

    for (size_t i = 0; i < STACKS; i++) {
        struct ktax_stack *stack = &stacks[(first + i) % STACKS];
        if (stack->block == 0 || stack->block == block + 1) {
            return stack;
        }
    }
    failed = "more than 16384 stacks";
    return &stacks[first];
}

bool ktax_stack_may_be(const struct ktax_position *pos, uint64_t address)
{
    uint64_t block = address >> KTAX_STACK_SHIFT;

    return !pos->stack || pos->is_switched || pos->stack->block == block + 1 ||
           find_stack(block)->block != 0;
}

struct ktax_stack *ktax_stack_find(struct ktax_position *pos, uint64_t address, uint32_t base)
{
    uint64_t block = address >> KTAX_STACK_SHIFT;

    if (!pos->stack || pos->stack->block != block + 1) {
        pos->stack = find_stack(block);
        pos->stack->block = block + 1;
    }
    if (pos->is_switched && pos->stack->depth > 0 &&
        pos->stack->frames[pos->stack->depth - 1].address < address) {
        pos->stack->depth = 0; /* the frames of a task that is dead */
    }
    pos->is_switched = false;
    if (pos->is_nested) {
        struct ktax_frame *entry = ktax_stack_push(pos->stack, address + 1, pos->base);
        if (entry) {
            entry->is_entry = true;
            entry->called_at = pos->was_called_at;
        }
        pos->is_nested = false;
    } else if (pos->stack->depth == 0) {
        pos->stack->base = base;
    }
    return pos->stack;
}

/* Something is called: where it returns to lies at the address. */
static void stack_called(struct ktax_position *pos, uint64_t address)
{
    if (pos->called_at != 0) { /* nearly never: what is called begins at once */
        memmove(pos->before + 1, pos->before, sizeof(pos->before) - sizeof(pos->before[0]));
    }
    pos->before[0] = pos->called_at;
    pos->called_at = address;
}

/*
 * Where that lies of what is called and has not begun, when an entry begins; 0: nothing is called.
 * QEMU 7.2 also calls for the words of the entry's frame, from the highest on, if the last
 * instruction that has callbacks was a call.
 */
static uint64_t stack_called_before_entry(const struct ktax_position *pos, bool is_interrupt)
{
    int words = is_interrupt ? KTAX_FRAME_WORDS - 1 : KTAX_FRAME_WORDS;

    for (; words >= KTAX_FRAME_WORDS - 1; words--) {
        int same = 0;
        while (same < words - 1 && pos->before[same] == pos->called_at + 8 * (uint64_t)(same + 1)) {
            same++;
        }
        if (same == words - 1) {
            return pos->before[same];
        }
    }
    return pos->called_at;
}

const char *ktax_stacks_failed(void)
{
    return failed;
}

enum {
    TABLE = 2 * KTAX_PATHS,
    DEEPEST = 1000,
};

struct pending {
    uint32_t path;
    struct ktax_path_counts counts;
};

/* What a task of a vCPU did that may yet enter user mode. */
struct list {
    struct pending *all;
    uint32_t count;
    uint32_t room;
    uint32_t *places; /* by path: where it is in the list, from 1 */
    uint32_t places_room;
};

struct ktax_path ktax_paths[KTAX_PATHS];
uint32_t ktax_path_count = 1;
bool ktax_paths_full;
bool ktax_paths_followed = true;

static uint32_t table[TABLE];
static struct list lists[KTAX_CPUS];

/* Makes room for one more; what is new is zero. */
static bool grow(void **all, uint32_t *room_of, uint32_t count, size_t size)
{
    if (count < *room_of) {
        return true;
    }
    uint32_t wanted = *room_of ? *room_of : 1024;
    while (wanted <= count) {
        wanted *= 2;
    }
    char *more = realloc(*all, (size_t)wanted * size);
    if (!more) {
        return false;
    }
    memset(more + (size_t)*room_of * size, 0, (size_t)(wanted - *room_of) * size);
    *all = more;
    *room_of = wanted;
    return true;
}

static uint32_t hash(uint32_t parent, int slot)
{
    uint64_t key = (uint64_t)parent << 16 ^ (uint64_t)slot;

    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 43);
}

static uint32_t find_path(uint32_t parent, int slot)
{
    uint32_t i = hash(parent, slot);

    for (; table[i] != 0; i = (i + 1) % TABLE) {
        const struct ktax_path *known = &ktax_paths[table[i]];
        if (known->parent == parent && known->slot == slot) {
            return table[i];
        }
    }
    if (ktax_path_count == KTAX_PATHS || ktax_paths[parent].depth == DEEPEST) {
        ktax_paths_full = true;
        return parent;
    }
    ktax_paths[ktax_path_count] = (struct ktax_path){
        .parent = parent,
        .depth = ktax_paths[parent].depth + 1,
        .slot = slot,
    };
    table[i] = ktax_path_count;
    return ktax_path_count++;
}

uint32_t ktax_paths_find(uint32_t parent, int slot)
{
    uint32_t path = find_path(parent, slot);

    ktax_paths[parent].lately[(unsigned)slot % KTAX_PATH_CHILDREN] = path;
    return path;
}

struct ktax_path_counts *ktax_paths_pending(uint32_t path)
{
    static struct ktax_path_counts nowhere;
    struct list *list = &lists[ktax_cpu - ktax_cpus];

    if (!grow((void **)&list->places, &list->places_room, path, sizeof(*list->places)) ||
        !grow((void **)&list->all, &list->room, list->count, sizeof(*list->all))) {
        ktax_paths_full = true;
        return &nowhere;
    }
    if (list->places[path] == 0) {
        list->all[list->count++] = (struct pending){ .path = path };
        list->places[path] = list->count;
    }
    return &list->all[list->places[path] - 1].counts;
}

static void forget(struct list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        list->places[list->all[i].path] = 0;
    }
    list->count = 0;
}

void ktax_paths_settle(enum ktax_context context)
{
    struct list *list = &lists[ktax_cpu - ktax_cpus];

    for (uint32_t i = 0; i < list->count; i++) {
        struct ktax_path_counts *to = &ktax_paths[list->all[i].path].counts[context];
        const struct ktax_path_counts *more = &list->all[i].counts;
        to->insns += more->insns;
        to->reps += more->reps;
        to->calls += more->calls;
    }
    forget(list);
}

/* At the markers. Forgets all counts; copies them, or returns false. */
static void clear_paths(void)
{
    for (uint32_t i = 0; i < ktax_path_count; i++) {
        memset(ktax_paths[i].counts, 0, sizeof(ktax_paths[i].counts));
    }
    for (int i = 0; i < ktax_cpu_count; i++) {
        forget(&lists[i]);
    }
}

bool ktax_paths_take(struct ktax_region *to)
{
    size_t size = ktax_path_count * sizeof(*ktax_paths);

    if (!ktax_paths_followed) {
        return true;
    }
    to->paths = aligned_alloc(_Alignof(struct ktax_path), size);
    to->path_count = to->paths ? ktax_path_count : 0;
    if (to->paths) {
        memcpy(to->paths, ktax_paths, size);
    }
    return to->paths;
}

static uint32_t in_user;
static uint64_t last_total;
static uint64_t last_reps;

static inline struct ktax_position *here(void)
{
    return &ktax_cpu->position;
}

static inline void flush(const struct ktax_position *pos, enum ktax_context context, uint64_t now)
{
    uint64_t reps = ktax_reps_total - last_reps;

    if (now != last_total) {
        struct ktax_path_counts *to = ktax_path_counts(pos->path, context);
        to->insns += now - last_total;
        last_total = now;
        if (reps != 0) {
            to->insns -= reps;
            to->reps += reps;
            last_reps += reps;
        }
    }
}

void ktax_calls_flush(uint64_t next)
{
    flush(here(), ktax_context_now(), ktax_total() + next);
}

void ktax_calls_iretq(void)
{
    ktax_calls_flush(1);
    here()->is_at_iretq = true;
}

/*
 * QEMU 7.2 also calls for what helpers of later instructions access, as those of an interrupt read
 * tables and write its frame. A call writes one word, and a return reads one. QEMU says the same
 * of the same `info`, and is slower.
 */
static inline bool is_word(qemu_plugin_meminfo_t info, bool is_store)
{
    static qemu_plugin_meminfo_t known[2] = { UINT32_MAX, UINT32_MAX };

    if (info == known[is_store]) {
        return true;
    }
    bool is_known =
        qemu_plugin_mem_is_store(info) == is_store && qemu_plugin_mem_size_shift(info) == 3;
    if (is_known) {
        known[is_store] = info;
    }
    return is_known;
}

const struct ktax_stack *ktax_calls_stack(void)
{
    const struct ktax_position *pos = here();

    return ktax_is_entry_code(pos) || pos->is_switched ? NULL : pos->stack;
}

/* Who calls what begins here. */
static uint32_t caller(const struct ktax_position *pos)
{
    return pos->path == pos->thunk ? pos->thunk_caller : pos->path;
}

static void count_call(uint32_t path)
{
    ktax_path_counts(path, ktax_context_now())->calls++;
}

static void jump_to(struct ktax_position *pos, int slot)
{
    struct ktax_stack *stack = pos->stack;

    if (ktax_is_entry_code(pos)) {
        pos->path = pos->base = ktax_paths_child(caller(pos), slot);
        count_call(pos->path);
        return;
    }
    uint64_t address = stack->frames[stack->depth - 1].address;
    for (int i = stack->depth - 1; i >= 0 && stack->frames[i].address == address; i--) {
        if (ktax_paths[stack->frames[i].path].slot == slot) {
            stack->depth = i + 1; /* code that jumps in circles */
            pos->path = ktax_stack_top(stack);
            return;
        }
    }
    pos->path = ktax_paths_child(ktax_stack_top(stack), slot);
    ktax_stack_push(stack, address, pos->path);
    count_call(pos->path);
}

static void enter_from_user(struct ktax_position *pos, int slot)
{
    pos->path = pos->base = ktax_paths_child(PATH_ROOT, slot);
    pos->stack = NULL;
    pos->is_nested = false;
    pos->called_at = 0;
    count_call(pos->path);
}

static void enter(int slot)
{
    struct ktax_position *pos = here();
    enum ktax_context context = ktax_context_now();
    uint64_t address = pos->called_at;

    flush(pos, context, ktax_total());
    if (address != 0) {
        struct ktax_stack *stack = ktax_stack_select(pos, address, caller(pos));
        ktax_stack_call(stack, address);
        pos->path = ktax_paths_child(ktax_stack_top(stack), slot);
        ktax_stack_push(stack, address, pos->path);
        pos->called_at = 0;
        ktax_path_counts(pos->path, context)->calls++;
    } else if (pos->path == in_user) {
        enter_from_user(pos, slot);
    } else {
        jump_to(pos, slot);
    }
}

void ktax_on_enter(unsigned int vcpu, void *data)
{
    (void)vcpu;
    enter((int)(uintptr_t)data);
}

/* An indirect call may also read where it goes to. */
void ktax_on_call(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    (void)vcpu;
    (void)data;
    if (is_word(info, true)) {
        stack_called(here(), address);
    }
}

/* A thunk that only returns is the slot in `data`, plus one. */
void ktax_on_return(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    struct ktax_position *pos = here();

    (void)vcpu;
    if (!is_word(info, false) || pos->path == in_user || !ktax_stack_is(pos, address)) {
        return;
    }
    enum ktax_context context = ktax_context_now();
    if (data) {
        uint32_t thunk = ktax_paths_child(caller(pos), (int)(uintptr_t)data - 1);
        ktax_path_counts(thunk, context)->insns++;
        last_total++;
    }
    if (ktax_is_in_thunk_of_calls(pos)) {
        return;
    }
    flush(pos, context, ktax_total());
    uint64_t called_at = pos->called_at;
    pos->called_at = 0;
    if (called_at == address) {
        return; /* of code outside of every function, as of a filter of packets */
    }
    struct ktax_stack *stack = ktax_stack_select(pos, address, pos->base);
    int depth = stack->depth;
    if (depth == 0) {
        pos->base = stack->base = PATH_ROOT; /* to a caller that was not seen */
    }
    ktax_stack_return(pos, stack, address);
    if (stack->depth == depth && depth > 0) {
        ktax_stack_return_moved(stack);
    }
    pos->path = ktax_stack_top(stack);
}

/* Reads the five words of its frame, from the lowest on. */
void ktax_on_iretq_read(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    struct ktax_position *pos = here();

    (void)vcpu;
    (void)info;
    (void)data;
    if (!pos->is_at_iretq || !ktax_stack_is(pos, address)) {
        return;
    }
    pos->is_at_iretq = false;
    ktax_calls_flush(0);
    struct ktax_stack *stack = ktax_stack_select(pos, address, pos->base);
    if (ktax_stack_return(pos, stack, address)) {
        pos->path = ktax_stack_top(stack);
    } else if (stack->depth == 0) {
        pos->path = in_user;
    }
}

void ktax_calls_enter(int slot, bool is_interrupt)
{
    struct ktax_position *pos = here();

    ktax_calls_flush(0);
    if (pos->path == in_user) {
        enter_from_user(pos, slot);
        return;
    }
    pos->path = pos->base = ktax_paths_child(is_interrupt ? PATH_ROOT : pos->path, slot);
    pos->is_nested = true;
    pos->was_called_at = stack_called_before_entry(pos, is_interrupt);
    pos->called_at = 0;
    count_call(pos->path);
}

void ktax_calls_jump(int slot)
{
    enter(slot);
}

void ktax_calls_new_task(int slot)
{
    struct ktax_position *pos = here();

    if (pos->called_at != 0) {
        enter(slot);
        return;
    }
    ktax_calls_flush(0);
    pos->path = pos->base = ktax_paths_child(PATH_ROOT, slot);
    pos->is_nested = false;
    if (pos->stack) {
        pos->stack->depth = 0;
    }
    count_call(pos->path);
}

void ktax_calls_switch(void)
{
    ktax_calls_flush(0);
    here()->base = PATH_ROOT;
    here()->is_switched = true;
}

void ktax_calls_leave(void)
{
    here()->path = in_user;
}

static void count_below(uint32_t parent, int slot, enum ktax_context context, uint64_t n)
{
    uint32_t path = ktax_paths_child(parent, slot);

    if (path != parent) { /* there is room */
        ktax_path_counts(path, context)->calls += n;
    }
}

void ktax_calls_costly(int kind)
{
    count_below(here()->path, PATH_COSTLY + kind, ktax_context_now(), 1);
}

void ktax_calls_wait(uint64_t n)
{
    count_below(here()->path, PATH_WAIT, ktax_context_now(), n);
}

void ktax_calls_idle(uint32_t path, uint64_t n)
{
    count_below(path, PATH_IDLE, CONTEXT_PROCESS, n);
}

uint32_t ktax_calls_here(void)
{
    return here()->path;
}

void ktax_calls_begin(void)
{
    in_user = ktax_paths_child(PATH_ROOT, SLOT_USER);
    clear_paths();
    last_total = ktax_total();
    last_reps = ktax_reps_total;
    here()->path = in_user;
}

void ktax_on_thunk(unsigned int vcpu, void *data)
{
    struct ktax_position *pos = &ktax_cpu->position;

    (void)vcpu;
    ktax_calls_flush(0);
    pos->is_thunk_of_calls = (uintptr_t)data & 1 || ktax_is_in_thunk_of_calls(pos);
    pos->thunk_caller = pos->stack && !pos->is_nested ? ktax_stack_top(pos->stack) : pos->base;
    pos->path = pos->thunk = ktax_paths_child(pos->thunk_caller, (int)((uintptr_t)data >> 1));
}

/* The compiler puts code that is seldom executed apart, and jumps there and back. */
void ktax_on_cold(unsigned int vcpu, void *data)
{
    struct ktax_position *pos = &ktax_cpu->position;
    int slot = (int)(uintptr_t)data;

    (void)vcpu;
    if (ktax_paths[pos->path].slot != slot) {
        ktax_calls_flush(0);
        pos->path = ktax_paths_child(pos->path, slot);
    }
}

void ktax_on_jump_back(unsigned int vcpu, void *data)
{
    struct ktax_position *pos = &ktax_cpu->position;

    (void)vcpu;
    (void)data;
    ktax_calls_flush(0);
    if (!ktax_is_entry_code(pos)) {
        pos->path = ktax_stack_top(pos->stack);
    }
}
