//! The eBPF programs that add up exits in the kernel. `Fold` in `recording.rs` does the same in
//! Rust, and a test compares the two.
//!
//! Registers: R6 points to the record, later to a row; R7 points to the thread; R8 is the current
//! time, ns; R9 is a duration, ns. The programs have no loops. No two CPUs write to a thread's
//! value at once, because its events happen where it runs, is switched, or is woken.
//!
//! The second half of this file is the assembler. Like all of this recorder it is for x86-64, so
//! words are little-endian.

use super::kernel::{row, thread};
use super::tracepoints::{FieldFilter, Hook, RecordField, SLEEPING_STATES};
use crate::recording::{Reason, STAGES, Stage};
use ktax_stats::tables::BUCKETS;

use Alu::{Add, And, Arsh, Lsh, Mov, Mul, Rsh, Sub};
use Condition::{AtLeast, Below, Different, Equal};
use Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};

/// An array map that is used as a hash table. A slot is free while its thread id is 0.
#[derive(Debug, Clone, Copy)]
pub struct Slots {
    /// File descriptor of the map.
    pub map: i32,
    /// Number of slots, a power of two.
    pub capacity: u32,
    /// Maximum number of slots in which a key is searched.
    pub probes: i32,
    /// Number of this table in the keys of [`Maps::claims`].
    pub kind: i32,
    /// Offset of the thread id in a value.
    pub tid: i16,
}

/// The maps, as file descriptors of this process.
#[derive(Debug, Clone, Copy)]
pub struct Maps {
    /// Values with the layout of [`thread`], by thread id.
    pub threads: Slots,
    /// Values with the layout of [`row`], by thread id, detail and code.
    pub rows: Slots,
    /// Claimed slots; a key is a slot's number and its table's kind, four bytes each.
    pub claims: i32,
    /// Two words: the number of lost events, and 1 while events are counted.
    pub state: i32,
}

impl Maps {
    /// Maximum number of threads that enter a guest.
    pub const THREADS: u32 = 4096;
    /// Maximum number of reasons, summed over all threads.
    pub const ROWS: u32 = 8192;
    pub const THREADS_KIND: i32 = 0;
    pub const ROWS_KIND: i32 = 1;
    /// Index of the number of lost events in [`Maps::state`].
    pub const LOST: u32 = 0;
    /// Index of the word in [`Maps::state`] that is 1 while events are counted.
    pub const IS_COUNTING: u32 = 1;

    pub fn new([threads, rows, claims, state]: [i32; 4]) -> Maps {
        let slots = |map, capacity, probes, kind, tid| Slots { map, capacity, probes, kind, tid };
        Maps {
            threads: slots(threads, Maps::THREADS, 4, Maps::THREADS_KIND, thread::TID),
            rows: slots(rows, Maps::ROWS, 16, Maps::ROWS_KIND, row::TID),
            claims,
            state,
        }
    }
}

// Offsets of variables in the stack frame.

const INDEX: i16 = -4;
const TID: i16 = -8;
const CODE: i16 = -16;
const DETAIL: i16 = -24;
// With TID, the key of a row.
const KEY_CODE: i16 = -32;
const KEY_DETAIL: i16 = -40;
/// Number of the first slot in which a row is searched.
const HASH: i16 = -48;
/// Key of a claimed slot.
const CLAIM: i16 = -56;

/// Flag of a map update: fail if the key exists.
const BPF_NOEXIST: i32 = 1;
/// Error of an update with [`BPF_NOEXIST`] if the key exists.
const EEXIST: i32 = 17;

/// Labels to which a program jumps after it looked at a slot.
struct ProbeLabels {
    /// The slot is free.
    free: Label,
    /// The slot belongs to this thread.
    same: Label,
    /// The slot belongs to another thread.
    next: Label,
}

struct Writer {
    asm: Assembler,
    maps: Maps,
}

/// Assembles the program of a hook, for the threads of one process.
pub fn assemble(hook: Hook, process: u32, maps: Maps) -> Vec<u8> {
    let asm = Assembler::default();
    let mut writer = Writer { asm, maps };
    let done = writer.asm.label();
    writer.asm.alu(Mov, R6, R1);
    match hook {
        Hook::Enter { filter } => writer.enter(filter, process, done),
        Hook::Exit { reason, detail } => writer.guest_exit(reason, detail, process, done),
        Hook::Return { reason, errno } => writer.kvm_run_return(reason, errno, process, done),
        Hook::ToUser => writer.set_stage(None, Stage::User, process, done),
        Hook::ToKernel { filter } => writer.set_stage(Some(filter), Stage::Kernel, process, done),
        Hook::Switch { prev_pid, prev_state, next_pid } => {
            writer.switch(prev_pid, prev_state, next_pid, done);
        }
        Hook::Wakeup { pid } => writer.wakeup(pid, done),
    }
    writer.asm.bind(done);
    writer.asm.exit();
    writer.asm.finish()
}

impl Writer {
    fn enter(&mut self, filter: Option<FieldFilter>, process: u32, done: Label) {
        self.filter(filter, done);
        self.load_current_thread(process, done);
        self.add_stage_time();
        self.set_first_time();
        self.close([thread::EXIT_NS, thread::ENTRY_NS]);
        self.set(thread::ENTRY_NS, R8);
        self.set_imm(thread::EXIT_NS, 0);
        self.set_imm(thread::STAGE, Stage::Kernel as i32);
    }

    fn guest_exit(
        &mut self,
        reason: RecordField,
        detail: Option<RecordField>,
        process: u32,
        done: Label,
    ) {
        self.load_current_thread(process, done);
        self.load_field(R1, reason);
        self.asm.store(Size::B8, R10, CODE, R1);
        match detail {
            Some(detail) => self.load_field(R1, detail),
            None => self.asm.alu_imm(Mov, R1, 0),
        }
        self.open_exit(Stage::Kernel);
    }

    fn kvm_run_return(
        &mut self,
        reason: RecordField,
        errno: RecordField,
        process: u32,
        done: Label,
    ) {
        self.load_current_thread(process, done);
        let is_error = self.asm.label();
        // The code is the sign-extended errno if that is negative, else the reason.
        self.load_field(R1, errno);
        self.asm.alu_imm(Lsh, R1, 32);
        self.asm.alu_imm(Arsh, R1, 32);
        self.asm.alu(Mov, R2, R1);
        self.asm.alu_imm(Rsh, R2, 63);
        self.asm.jump_if_imm(Different, R2, 0, is_error);
        self.load_field(R1, reason);
        self.asm.bind(is_error);
        self.asm.store(Size::B8, R10, CODE, R1);
        self.asm.alu_imm(Mov, R1, 0);
        self.open_exit(Stage::User);
    }

    /// Closes the stay in the guest and opens an exit, with the reason in CODE and the detail in
    /// R1.
    fn open_exit(&mut self, stage: Stage) {
        self.asm.store(Size::B8, R10, DETAIL, R1);
        self.add_stage_time();
        self.set_first_time();
        self.close([thread::ENTRY_NS, thread::EXIT_NS]);
        self.copy((R7, thread::REASON), (R10, CODE));
        self.copy((R7, thread::DETAIL), (R10, DETAIL));
        self.set(thread::EXIT_NS, R8);
        self.set_imm(thread::ENTRY_NS, 0);
        self.set_imm(thread::STAGE, stage as i32);
    }

    fn set_stage(&mut self, filter: Option<FieldFilter>, stage: Stage, process: u32, done: Label) {
        self.filter(filter, done);
        self.load_current_thread(process, done);
        self.add_stage_time();
        self.set_imm(thread::STAGE, stage as i32);
    }

    fn switch(
        &mut self,
        prev_pid: RecordField,
        prev_state: RecordField,
        next_pid: RecordField,
        done: Label,
    ) {
        let (next, preempted, has_cpu) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.load_now();
        self.load_field(R1, prev_pid);
        self.find_thread(next);
        self.add_stage_time();
        self.asm.load(Size::B8, R1, R7, thread::STAGE);
        self.asm.jump_if_imm(Below, R1, Stage::FIRST_OFF_CPU as i32, has_cpu);
        // The thread has no CPU although it is switched out: its switch in was not seen.
        self.copy((R7, thread::STAGE), (R7, thread::STAGE_BEFORE_SWITCH));
        self.asm.bind(has_cpu);
        self.set(thread::STAGE_BEFORE_SWITCH, R1);
        self.load_field(R2, prev_state);
        self.asm.alu_imm(And, R2, SLEEPING_STATES);
        self.asm.jump_if_imm(Equal, R2, 0, preempted);
        // A thread that sleeps in the VMM stays in the stage of the VMM.
        self.asm.jump_if_imm(Equal, R1, Stage::User as i32, next);
        self.set_imm(thread::STAGE, Stage::Halted as i32);
        self.asm.jump(next);
        self.asm.bind(preempted);
        self.set_imm(thread::STAGE, Stage::Preempted as i32);
        self.asm.bind(next);
        self.load_field(R1, next_pid);
        self.find_thread(done);
        self.add_stage_time();
        // A thread that is switched in keeps its stage if its switch out was not seen.
        self.asm.load(Size::B8, R1, R7, thread::STAGE);
        self.asm.jump_if_imm(Below, R1, Stage::FIRST_OFF_CPU as i32, done);
        self.copy((R7, thread::STAGE), (R7, thread::STAGE_BEFORE_SWITCH));
    }

    fn wakeup(&mut self, pid: RecordField, done: Label) {
        self.load_now();
        self.load_field(R1, pid);
        self.find_thread(done);
        self.asm.load(Size::B8, R1, R7, thread::STAGE);
        self.asm.jump_if_imm(Different, R1, Stage::Halted as i32, done);
        self.add_stage_time();
        self.set_imm(thread::STAGE, Stage::Preempted as i32);
    }

    /// `to` = a field of the record.
    fn load_field(&mut self, to: Reg, field: RecordField) {
        let size = match field.size {
            1 => Size::B1,
            2 => Size::B2,
            4 => Size::B4,
            _ => Size::B8,
        };
        self.asm.load(size, to, R6, field.offset as i16);
    }

    /// Writes a word of the thread.
    fn set(&mut self, word: i16, from: Reg) {
        self.asm.store(Size::B8, R7, word, from);
    }

    /// Writes a constant to a word of the thread; R1 is lost.
    fn set_imm(&mut self, word: i16, value: i32) {
        self.asm.alu_imm(Mov, R1, value);
        self.set(word, R1);
    }

    /// Jumps to `done` if the record's field has another value than the filter.
    fn filter(&mut self, filter: Option<FieldFilter>, done: Label) {
        if let Some(FieldFilter { field, value }) = filter {
            // The record has 8 bytes, as user space passed them, but KVM reads only the low four.
            // On little-endian x86-64 those are the first.
            self.asm.load(Size::B4, R1, R6, field.offset as i16);
            self.asm.set_u32(R2, value);
            self.asm.jump_if(Different, R1, R2, done);
        }
    }

    /// R8 = the current time, ns.
    fn load_now(&mut self) {
        self.asm.call(Helper::KtimeGetNs);
        self.asm.alu(Mov, R8, R0);
    }

    /// R7 = the thread with the id in R1; jumps to `unknown` if the map has no such thread.
    fn find_thread(&mut self, unknown: Label) {
        self.asm.store(Size::B4, R10, TID, R1);
        let found = self.asm.label();
        for probe in 0..self.maps.threads.probes {
            let next = self.asm.label();
            self.asm.load(Size::B4, R1, R10, TID);
            let labels = ProbeLabels { free: unknown, same: found, next };
            self.probe(self.maps.threads, probe, R7, &labels);
            self.asm.bind(next);
        }
        self.asm.jump(unknown);
        self.asm.bind(found);
    }

    /// R7 = the current thread, which is added to the map if necessary; jumps to `done` if it does
    /// not belong to the process. The first close() drops a new thread's time before its first
    /// entry or exit.
    fn load_current_thread(&mut self, process: u32, done: Label) {
        let (found, full) = (self.asm.label(), self.asm.label());
        self.asm.call(Helper::CurrentPidTgid);
        self.asm.alu(Mov, R1, R0);
        self.asm.alu_imm(Rsh, R1, 32);
        self.asm.set_u32(R2, process);
        self.asm.jump_if(Different, R1, R2, done);
        self.asm.store(Size::B4, R10, TID, R0);
        self.skip_unless_counting(done);
        self.load_now();
        for probe in 0..self.maps.threads.probes {
            let (free, next) = (self.asm.label(), self.asm.label());
            self.asm.load(Size::B4, R1, R10, TID);
            self.probe(self.maps.threads, probe, R7, &ProbeLabels { free, same: found, next });
            self.asm.bind(free);
            self.claim_slot(self.maps.threads, R7, next, full);
            self.asm.alu(Mov, R1, R7);
            self.asm.alu_imm(Add, R1, i32::from(thread::COMM));
            self.asm.alu_imm(Mov, R2, thread::BYTES as i32 - i32::from(thread::COMM));
            self.asm.call(Helper::CurrentComm);
            self.asm.jump(found);
            self.asm.bind(next);
        }
        self.asm.bind(full);
        self.count_lost();
        self.asm.jump(done);
        self.asm.bind(found);
    }

    /// Copies a word; R1 then has it too.
    fn copy(&mut self, (to, to_word): (Reg, i16), (from, from_word): (Reg, i16)) {
        self.asm.load(Size::B8, R1, from, from_word);
        self.asm.store(Size::B8, to, to_word, R1);
    }

    /// Adds 1 to a word; R1 is lost.
    fn count(&mut self, base: Reg, word: i16) {
        self.asm.load(Size::B8, R1, base, word);
        self.asm.alu_imm(Add, R1, 1);
        self.asm.store(Size::B8, base, word, R1);
    }

    /// Adds a register to a word; R1 is lost.
    fn add(&mut self, base: Reg, word: i16, amount: Reg) {
        self.asm.load(Size::B8, R1, base, word);
        self.asm.alu(Add, R1, amount);
        self.asm.store(Size::B8, base, word, R1);
    }

    /// Emits the code of `block`, which is skipped if `a condition b`.
    fn unless(&mut self, condition: Condition, a: Reg, b: Reg, block: impl FnOnce(&mut Self)) {
        let end = self.asm.label();
        self.asm.jump_if(condition, a, b, end);
        block(self);
        self.asm.bind(end);
    }

    /// Adds the time since the thread's last event to the thread's stage. R8 becomes at least the
    /// time of that event, because the kernel's fast clock may step back between two CPUs.
    fn add_stage_time(&mut self) {
        self.asm.load(Size::B8, R1, R7, thread::LAST);
        self.unless(AtLeast, R8, R1, |this| this.asm.alu(Mov, R8, R1));
        self.asm.alu(Mov, R2, R8);
        self.asm.alu(Sub, R2, R1);
        self.set(thread::LAST, R8);
        self.asm.load(Size::B8, R3, R7, thread::STAGE);
        self.asm.alu_imm(And, R3, STAGES as i32 - 1);
        self.asm.alu_imm(Lsh, R3, 3);
        self.asm.alu(Add, R3, R7);
        self.add(R3, thread::PARTS, R2);
    }

    /// Writes the time of the thread's first entry or exit, unless there was one before.
    fn set_first_time(&mut self) {
        let is_set = self.asm.label();
        self.asm.load(Size::B8, R1, R7, thread::FIRST);
        self.asm.jump_if_imm(Different, R1, 0, is_set);
        self.set(thread::FIRST, R8);
        self.asm.bind(is_set);
    }

    /// `to` = the slot with the number in R1 plus `probe`; jumps according to the slot's thread.
    fn probe(&mut self, slots: Slots, probe: i32, to: Reg, labels: &ProbeLabels) {
        self.asm.alu_imm(Add, R1, probe);
        self.asm.alu_imm(And, R1, slots.capacity as i32 - 1);
        self.asm.store(Size::B4, R10, INDEX, R1);
        self.look_up(slots.map, INDEX);
        self.asm.jump_if_imm(Equal, R0, 0, labels.next);
        self.asm.alu(Mov, to, R0);
        self.asm.load(Size::B8, R1, to, slots.tid);
        self.asm.jump_if_imm(Equal, R1, 0, labels.free);
        self.asm.load(Size::B4, R2, R10, TID);
        self.asm.jump_if(Equal, R1, R2, labels.same);
        self.asm.jump(labels.next);
    }

    /// Claims the free slot of the last probe and writes the thread's id into it. Jumps to `next`
    /// if another CPU claimed the slot first, and to `full` if the map of claims refuses the
    /// update.
    fn claim_slot(&mut self, slots: Slots, slot: Reg, next: Label, full: Label) {
        self.asm.load(Size::B4, R1, R10, INDEX);
        self.asm.store(Size::B4, R10, CLAIM, R1);
        self.asm.alu_imm(Mov, R1, slots.kind);
        self.asm.store(Size::B4, R10, CLAIM + 4, R1);
        self.asm.map(R1, self.maps.claims);
        self.address(R2, CLAIM);
        self.address(R3, CLAIM);
        self.asm.alu_imm(Mov, R4, BPF_NOEXIST);
        self.asm.call(Helper::MapUpdate);
        self.asm.jump_if_imm(Equal, R0, -EEXIST, next);
        self.asm.jump_if_imm(Different, R0, 0, full);
        self.asm.load(Size::B4, R1, R10, TID);
        self.asm.store(Size::B8, slot, slots.tid, R1);
    }

    /// Counts an event that found no free slot.
    fn count_lost(&mut self) {
        let end = self.asm.label();
        self.load_state(Maps::LOST, end);
        self.count(R0, 0);
        self.asm.bind(end);
    }

    /// Jumps to `done` unless events are counted: counting waits until all programs are attached,
    /// because entries without exits would give the guest the time of exits.
    fn skip_unless_counting(&mut self, done: Label) {
        self.load_state(Maps::IS_COUNTING, done);
        self.asm.load(Size::B8, R1, R0, 0);
        self.asm.jump_if_imm(Equal, R1, 0, done);
    }

    /// R0 = the address of a word of [`Maps::state`]; jumps to `missing` if there is none.
    fn load_state(&mut self, word: u32, missing: Label) {
        self.asm.set_u32(R1, word);
        self.asm.store(Size::B4, R10, INDEX, R1);
        self.look_up(self.maps.state, INDEX);
        self.asm.jump_if_imm(Equal, R0, 0, missing);
    }

    /// `to` = the address of a variable in the stack frame.
    fn address(&mut self, to: Reg, offset: i16) {
        self.asm.alu(Mov, to, R10);
        self.asm.alu_imm(Add, to, i32::from(offset));
    }

    /// R0 = the address of a value, or 0; the key is a variable in the stack frame.
    fn look_up(&mut self, map: i32, key: i16) {
        self.asm.map(R1, map);
        self.address(R2, key);
        self.asm.call(Helper::MapLookup);
    }

    /// Adds the open interval to its row. `expected` and `other` are the words with the start of an
    /// interval; if not `expected` but `other` is open, the event is unpaired.
    fn close(&mut self, [expected, other]: [i16; 2]) {
        let (is_paired, has_key) = (self.asm.label(), self.asm.label());
        let (end, full) = (self.asm.label(), self.asm.label());
        self.asm.load(Size::B8, R9, R7, expected);
        self.asm.jump_if_imm(Different, R9, 0, is_paired);
        self.asm.load(Size::B8, R9, R7, other);
        self.asm.jump_if_imm(Equal, R9, 0, end);
        self.count(R7, thread::UNPAIRED);
        self.write_key(other);
        self.asm.jump(has_key);
        self.asm.bind(is_paired);
        self.write_key(expected);
        self.asm.bind(has_key);
        self.asm.alu(Mov, R1, R8);
        self.asm.alu(Sub, R1, R9);
        self.asm.alu(Mov, R9, R1);
        self.find_row(full);
        self.add_to_row();
        self.asm.jump(end);
        self.asm.bind(full);
        self.count_lost();
        self.asm.bind(end);
        self.asm.alu_imm(Mov, R1, 0);
        (0..STAGES as i16).for_each(|part| self.set(thread::PARTS + 8 * part, R1));
    }

    /// Writes the key, and its hash, of the open interval with its start in the word `start`.
    fn write_key(&mut self, start: i16) {
        if start == thread::ENTRY_NS {
            // Reason::GUEST is all ones; the immediate is sign-extended.
            self.asm.alu_imm(Mov, R1, -1);
            self.asm.alu_imm(Mov, R2, -1);
            self.asm.low_half(R1, R1);
        } else {
            self.asm.load(Size::B8, R1, R7, thread::DETAIL);
            self.asm.load(Size::B8, R2, R7, thread::REASON);
        }
        self.asm.store(Size::B8, R10, KEY_DETAIL, R1);
        self.asm.store(Size::B8, R10, KEY_CODE, R2);
        debug_assert_eq!((Reason::GUEST.code, Reason::GUEST.detail), (u64::MAX, u32::MAX));
        // Odd multipliers spread differences in the low bits over the high bits.
        self.asm.load(Size::B4, R3, R10, TID);
        for (reg, factor) in [(R1, 0x2c1b_3c6d), (R2, 0x297a_2d39), (R3, 0x1b87_3593)] {
            self.asm.alu_imm(Mul, reg, factor);
        }
        self.asm.alu(Add, R1, R2);
        self.asm.alu(Add, R1, R3);
        self.asm.alu_imm(Rsh, R1, 16);
        self.asm.store(Size::B8, R10, HASH, R1);
    }

    /// R6 = the row of the key, which is added if necessary; jumps to `full` if no slot is free.
    fn find_row(&mut self, full: Label) {
        let found = self.asm.label();
        for probe in 0..self.maps.rows.probes {
            let (free, same, next) = (self.asm.label(), self.asm.label(), self.asm.label());
            self.asm.load(Size::B8, R1, R10, HASH);
            self.probe(self.maps.rows, probe, R6, &ProbeLabels { free, same, next });
            self.asm.bind(free);
            self.claim_slot(self.maps.rows, R6, next, full);
            self.copy((R6, row::CODE), (R10, KEY_CODE));
            self.copy((R6, row::DETAIL), (R10, KEY_DETAIL));
            self.asm.jump(found);
            self.asm.bind(same);
            for (key, word) in [(KEY_CODE, row::CODE), (KEY_DETAIL, row::DETAIL)] {
                self.asm.load(Size::B8, R1, R6, word);
                self.asm.load(Size::B8, R2, R10, key);
                self.asm.jump_if(Different, R1, R2, next);
            }
            self.asm.jump(found);
            self.asm.bind(next);
        }
        self.asm.jump(full);
        self.asm.bind(found);
    }

    /// Adds the duration R9 and the thread's parts to the row R6.
    fn add_to_row(&mut self) {
        let (is_min, min_done) = (self.asm.label(), self.asm.label());
        self.asm.load(Size::B8, R2, R6, row::COUNT);
        self.count(R6, row::COUNT);
        self.add(R6, row::SUM, R9);
        self.asm.jump_if_imm(Equal, R2, 0, is_min);
        self.asm.load(Size::B8, R1, R6, row::MIN);
        self.asm.jump_if(AtLeast, R9, R1, min_done);
        self.asm.bind(is_min);
        self.asm.store(Size::B8, R6, row::MIN, R9);
        self.asm.bind(min_done);
        self.asm.load(Size::B8, R1, R6, row::MAX);
        self.unless(AtLeast, R1, R9, |this| this.asm.store(Size::B8, R6, row::MAX, R9));
        for part in (0..STAGES as i16).map(|part| 8 * part) {
            self.asm.load(Size::B8, R2, R7, thread::PARTS + part);
            self.add(R6, row::PARTS + part, R2);
        }
        self.add_square();
        self.count_bucket();
    }

    /// Adds R9² to the row's 128-bit sum of squares. With R9 = a·2³² + b, R9² is
    /// a²·2⁶⁴ + ab·2³³ + b².
    fn add_square(&mut self) {
        self.asm.low_half(R1, R9);
        self.asm.alu(Mov, R2, R9);
        self.asm.alu_imm(Rsh, R2, 32);
        self.asm.alu(Mov, R3, R2);
        self.asm.alu(Mul, R3, R1);
        self.asm.alu(Mul, R1, R1);
        self.asm.alu(Mul, R2, R2);
        self.asm.alu(Mov, R4, R3);
        self.asm.alu_imm(Lsh, R4, 33);
        self.asm.alu_imm(Rsh, R3, 31);
        self.asm.alu(Add, R2, R3);
        self.asm.alu(Add, R4, R1);
        self.unless(AtLeast, R4, R1, |this| this.asm.alu_imm(Add, R2, 1));
        self.add(R6, row::SQUARES_LOW, R4);
        self.unless(AtLeast, R1, R4, |this| this.asm.alu_imm(Add, R2, 1));
        self.add(R6, row::SQUARES_HIGH, R2);
    }

    /// Counts the duration R9 in its bucket, the one that `ktax_stats::tables::bucket` returns.
    fn count_bucket(&mut self) {
        let is_small = self.asm.label();
        self.asm.alu(Mov, R3, R9);
        self.asm.alu_imm(Mov, R2, 0);
        self.asm.alu(Mov, R1, R9);
        for shift in [32, 16, 8, 4, 2, 1] {
            self.asm.set_u32(R4, if shift == 32 { u32::MAX } else { (1 << shift) - 1 });
            self.unless(AtLeast, R4, R1, |this| {
                this.asm.alu_imm(Rsh, R1, shift);
                this.asm.alu_imm(Add, R2, shift);
            });
        }
        // R2 is the integer part of the logarithm of R9 to base 2.
        self.asm.jump_if_imm(Below, R2, 3, is_small);
        self.asm.alu_imm(Add, R2, -3);
        self.asm.alu(Rsh, R3, R2);
        self.asm.alu_imm(And, R3, 7);
        self.asm.alu_imm(Add, R2, 1);
        self.asm.alu_imm(Lsh, R2, 3);
        self.asm.alu(Add, R3, R2);
        self.asm.bind(is_small);
        self.asm.alu_imm(And, R3, BUCKETS as i32 - 1);
        self.asm.alu_imm(Lsh, R3, 3);
        self.asm.alu(Mov, R5, R6);
        self.asm.alu(Add, R5, R3);
        self.count(R5, row::BUCKETS);
    }
}

/// A register of eBPF; R10 is the frame pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Width of a load or a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    B1 = 0x10,
    B2 = 0x08,
    B4 = 0x00,
    B8 = 0x18,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    And = 0x50,
    Lsh = 0x60,
    Rsh = 0x70,
    Mov = 0xb0,
    Arsh = 0xc0,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Equal = 0x10,
    AtLeast = 0x30,
    Different = 0x50,
    Below = 0xa0,
}

/// Helper functions of the kernel (include/uapi/linux/bpf.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    KtimeGetNs = 5,
    CurrentPidTgid = 14,
    CurrentComm = 16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Label(usize);

const ALU64: u8 = 0x07;
const ALU32: u8 = 0x04;
const JMP: u8 = 0x05;
const FROM_REG: u8 = 0x08;
const LOAD: u8 = 0x61;
const STORE: u8 = 0x63;
const LOAD_IMM64: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const PSEUDO_MAP_FD: u8 = 1;

#[derive(Debug, Default)]
struct Assembler {
    code: Vec<[u8; 8]>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// Appends an instruction, with the layout of little-endian machines.
    fn emit(&mut self, op: u8, dst: Reg, src: u8, offset: i16, imm: i32) {
        let registers = src << 4 | dst as u8;
        let ([o0, o1], [i0, i1, i2, i3]) = (offset.to_le_bytes(), imm.to_le_bytes());
        self.code.push([op, registers, o0, o1, i0, i1, i2, i3]);
    }

    /// `dst = dst op src`.
    fn alu(&mut self, op: Alu, dst: Reg, src: Reg) {
        self.emit(ALU64 | FROM_REG | op as u8, dst, src as u8, 0, 0);
    }

    /// `dst = dst op imm`.
    fn alu_imm(&mut self, op: Alu, dst: Reg, imm: i32) {
        self.emit(ALU64 | op as u8, dst, 0, 0, imm);
    }

    /// `dst` = the low half of `src`, zero-extended.
    fn low_half(&mut self, dst: Reg, src: Reg) {
        self.emit(ALU32 | FROM_REG | Alu::Mov as u8, dst, src as u8, 0, 0);
    }

    /// `dst` = `imm`, zero-extended.
    fn set_u32(&mut self, dst: Reg, imm: u32) {
        self.emit(ALU32 | Alu::Mov as u8, dst, 0, 0, imm as i32);
    }

    /// `dst = *(base + offset)`.
    fn load(&mut self, size: Size, dst: Reg, base: Reg, offset: i16) {
        self.emit(LOAD | size as u8, dst, base as u8, offset, 0);
    }

    /// `*(base + offset) = src`.
    fn store(&mut self, size: Size, base: Reg, offset: i16, src: Reg) {
        self.emit(STORE | size as u8, base, src as u8, offset, 0);
    }

    /// `dst` = the map with this descriptor; the kernel replaces the descriptor by a pointer.
    fn map(&mut self, dst: Reg, fd: i32) {
        self.emit(LOAD_IMM64, dst, PSEUDO_MAP_FD, 0, fd);
        self.emit(0, Reg::R0, 0, 0, 0);
    }

    /// Calls a helper; R1 to R5 are lost, R0 is the return value.
    fn call(&mut self, helper: Helper) {
        self.emit(CALL, Reg::R0, 0, 0, helper as i32);
    }

    /// Ends the program with status 1: with 0 the kernel would hide the event from other users of
    /// the tracepoint (perf_trace_run_bpf_submit).
    fn exit(&mut self) {
        self.alu_imm(Alu::Mov, Reg::R0, 1);
        self.emit(EXIT, Reg::R0, 0, 0, 0);
    }

    /// Makes a label, whose position [`Assembler::bind`] sets later.
    fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Sets a label's position: the next instruction.
    fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(JMP, Reg::R0, 0, 0, 0);
    }

    /// Jumps if `a condition b`.
    fn jump_if(&mut self, condition: Condition, a: Reg, b: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(JMP | FROM_REG | condition as u8, a, b as u8, 0, 0);
    }

    /// Jumps if `a condition imm`, with `imm` sign-extended.
    fn jump_if_imm(&mut self, condition: Condition, a: Reg, imm: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(JMP | condition as u8, a, 0, 0, imm);
    }

    /// Returns the code, with the distances of all jumps. Panics if a label was never bound, a bug
    /// that every test of the program finds.
    fn finish(mut self) -> Vec<u8> {
        for (index, label) in &self.jumps {
            let to = self.labels[label.0].expect("every label is bound");
            let distance =
                i16::try_from(to as i64 - *index as i64 - 1).expect("programs are short");
            self.code[*index][2..4].copy_from_slice(&distance.to_le_bytes());
        }
        self.code.concat()
    }
}
