//! The programs that add exits up in the kernel. `Fold` in `recording.rs` does the same in Rust,
//! and a test compares them.
//!
//! Registers: R6 the record, later a row; R7 the thread; R8 now; R9 a duration. Only integers; no
//! loops; a thread's words are written only where it runs, is switched, or sleeps.
//!
//! At the end is the assembler.

use super::kernel::{row, thread};
use super::tracepoints::{ASLEEP, Field, FieldFilter, Hook};
use crate::recording::{Reason, STAGES, Stage};
use ktax_stats::tables::BUCKETS;

use Alu::{Add, And, Arsh, Lsh, Mov, Mul, Rsh, Sub};
use Condition::{AtLeast, Below, Different, Equal};
use Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};

/// A map that is an array of slots. A slot is free where the thread's id is 0.
#[derive(Debug, Clone, Copy)]
pub struct Slots {
    pub map: i32,
    /// A power of two.
    pub room: u32,
    pub probes: i32,
    /// Kind of these slots in the keys of [`Maps::taken`].
    pub kind: i32,
    /// Offset of the thread's id in a value.
    pub tid: i16,
}

/// The maps, as file descriptors of this process.
#[derive(Debug, Clone, Copy)]
pub struct Maps {
    /// Records of [`thread`], by thread id.
    pub threads: Slots,
    /// Records of [`row`], by thread id, detail and code.
    pub rows: Slots,
    /// Taken slots: their number and kind, of four bytes each.
    pub taken: i32,
    /// Two words: events that found no room, and whether events count.
    pub state: i32,
}

impl Maps {
    /// Most threads that enter a guest, and most reasons of all of them together.
    pub const THREADS: u32 = 4096;
    pub const ROWS: u32 = 8192;
    pub const KIND_OF_THREADS: i32 = 0;
    pub const KIND_OF_ROWS: i32 = 1;
    pub const LOST: u32 = 0;
    pub const IS_ON: u32 = 1;

    pub fn new([threads, rows, taken, state]: [i32; 4]) -> Maps {
        let slots = |map, room, probes, kind, tid| Slots { map, room, probes, kind, tid };
        Maps {
            threads: slots(threads, Maps::THREADS, 4, Maps::KIND_OF_THREADS, thread::TID),
            rows: slots(rows, Maps::ROWS, 16, Maps::KIND_OF_ROWS, row::TID),
            taken,
            state,
        }
    }
}

/// Offsets of variables in the stack frame.
const INDEX: i16 = -4;
const TID: i16 = -8;
const CODE: i16 = -16;
const DETAIL: i16 = -24;
/// Key of the row, beside TID.
const KEY_CODE: i16 = -32;
const KEY_DETAIL: i16 = -40;
/// First slot in which a row is searched.
const HASH: i16 = -48;
const CLAIM: i16 = -56;

/// Flag of an update: fail if the key exists.
const BPF_NOEXIST: i32 = 1;
/// Error of such an update: the key exists.
const EEXIST: i32 = 17;

struct ProbeLabels {
    free: Label,
    /// The slot is this thread's.
    same: Label,
    next: Label,
}

struct Writer {
    asm: Assembler,
    maps: Maps,
}

/// The program of a hook, for the threads of one process.
pub fn assemble(hook: Hook, process: u32, maps: Maps) -> Vec<u8> {
    let asm = Assembler::default();
    let mut writer = Writer { asm, maps };
    let done = writer.asm.label();
    writer.asm.alu(Mov, R6, R1);
    match hook {
        Hook::Enter { only } => writer.enter(only, process, done),
        Hook::Exit { reason, detail } => writer.exit(reason, detail, process, done),
        Hook::Return { reason, errno } => writer.returns(reason, errno, process, done),
        Hook::ToUser => writer.enter_stage(None, Stage::User, process, done),
        Hook::ToKernel { only } => writer.enter_stage(Some(only), Stage::Kernel, process, done),
        Hook::Switch { from, state, to } => writer.switch(from, state, to, done),
        Hook::Wakeup { thread } => writer.wakeup(thread, done),
    }
    writer.asm.bind(done);
    writer.asm.exit();
    writer.asm.finish()
}

impl Writer {
    fn enter(&mut self, only: Option<FieldFilter>, process: u32, done: Label) {
        self.only(only, done);
        self.current(process, done);
        self.account();
        self.begin();
        self.close([thread::EXIT_AT, thread::ENTRY_AT]);
        self.set(thread::ENTRY_AT, R8);
        self.set_imm(thread::EXIT_AT, 0);
        self.set_imm(thread::STAGE, Stage::Kernel as i32);
    }

    fn exit(&mut self, reason: Field, detail: Option<Field>, process: u32, done: Label) {
        self.current(process, done);
        self.field(R1, reason);
        self.asm.store(Size::B8, R10, CODE, R1);
        match detail {
            Some(detail) => self.field(R1, detail),
            None => self.asm.alu_imm(Mov, R1, 0),
        }
        self.book_exit(Stage::Kernel);
    }

    fn returns(&mut self, reason: Field, errno: Field, process: u32, done: Label) {
        self.current(process, done);
        let fine = self.asm.label();
        self.field(R1, errno);
        self.asm.alu_imm(Lsh, R1, 32);
        self.asm.alu_imm(Arsh, R1, 32);
        self.asm.alu(Mov, R2, R1);
        self.asm.alu_imm(Rsh, R2, 63);
        self.asm.jump_if_imm(Different, R2, 0, fine);
        self.field(R1, reason);
        self.asm.bind(fine);
        self.asm.store(Size::B8, R10, CODE, R1);
        self.asm.alu_imm(Mov, R1, 0);
        self.book_exit(Stage::User);
    }

    /// Books an exit, whose reason is in CODE, and its detail in R1.
    fn book_exit(&mut self, to: Stage) {
        self.asm.store(Size::B8, R10, DETAIL, R1);
        self.account();
        self.begin();
        self.close([thread::ENTRY_AT, thread::EXIT_AT]);
        self.copy((R7, thread::REASON), (R10, CODE));
        self.copy((R7, thread::DETAIL), (R10, DETAIL));
        self.set(thread::EXIT_AT, R8);
        self.set_imm(thread::ENTRY_AT, 0);
        self.set_imm(thread::STAGE, to as i32);
    }

    fn enter_stage(&mut self, only: Option<FieldFilter>, to: Stage, process: u32, done: Label) {
        self.only(only, done);
        self.current(process, done);
        self.account();
        self.set_imm(thread::STAGE, to as i32);
    }

    fn switch(&mut self, from: Field, state: Field, to: Field, done: Label) {
        let (next, preempted, is_on) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.now();
        self.field(R1, from);
        self.find_thread(next);
        self.account();
        self.asm.load(Size::B8, R1, R7, thread::STAGE);
        self.asm.jump_if_imm(Below, R1, Stage::FIRST_OFF as i32, is_on);
        // Off already: its being on was not seen.
        self.copy((R7, thread::STAGE), (R7, thread::SAVED));
        self.asm.bind(is_on);
        self.set(thread::SAVED, R1);
        self.field(R2, state);
        self.asm.alu_imm(And, R2, ASLEEP);
        self.asm.jump_if_imm(Equal, R2, 0, preempted);
        // Asleep in the VMM is the VMM's time.
        self.asm.jump_if_imm(Equal, R1, Stage::User as i32, next);
        self.set_imm(thread::STAGE, Stage::Halted as i32);
        self.asm.jump(next);
        self.asm.bind(preempted);
        self.set_imm(thread::STAGE, Stage::Preempted as i32);
        self.asm.bind(next);
        self.field(R1, to);
        self.find_thread(done);
        self.account();
        // On already, where its being off was not seen.
        self.asm.load(Size::B8, R1, R7, thread::STAGE);
        self.asm.jump_if_imm(Below, R1, Stage::FIRST_OFF as i32, done);
        self.copy((R7, thread::STAGE), (R7, thread::SAVED));
    }

    fn wakeup(&mut self, who: Field, done: Label) {
        self.now();
        self.field(R1, who);
        self.find_thread(done);
        self.asm.load(Size::B8, R1, R7, thread::STAGE);
        self.asm.jump_if_imm(Different, R1, Stage::Halted as i32, done);
        self.account();
        self.set_imm(thread::STAGE, Stage::Preempted as i32);
    }

    fn field(&mut self, to: Reg, field: Field) {
        let size = match field.size {
            1 => Size::B1,
            2 => Size::B2,
            4 => Size::B4,
            _ => Size::B8,
        };
        self.asm.load(size, to, R6, field.offset as i16);
    }

    fn set(&mut self, word: i16, from: Reg) {
        self.asm.store(Size::B8, R7, word, from);
    }

    fn set_imm(&mut self, word: i16, value: i32) {
        self.asm.alu_imm(Mov, R1, value);
        self.set(word, R1);
    }

    fn only(&mut self, only: Option<FieldFilter>, done: Label) {
        if let Some(FieldFilter { field, value }) = only {
            // The low half: the kernel records what user space passed, and KVM looks at 32 bits.
            self.asm.load(Size::B4, R1, R6, field.offset as i16);
            self.asm.set_u32(R2, value);
            self.asm.jump_if(Different, R1, R2, done);
        }
    }

    fn now(&mut self) {
        self.asm.call(Helper::KtimeGetNs);
        self.asm.alu(Mov, R8, R0);
    }

    /// R7 = the thread with the id in R1; jumps to `unknown` if the map lacks it.
    fn find_thread(&mut self, unknown: Label) {
        self.asm.store(Size::B4, R10, TID, R1);
        let found = self.asm.label();
        for probe in 0..self.maps.threads.probes {
            let next = self.asm.label();
            self.asm.load(Size::B4, R1, R10, TID);
            let on = ProbeLabels { free: unknown, same: found, next };
            self.probe(self.maps.threads, probe, R7, &on);
            self.asm.bind(next);
        }
        self.asm.jump(unknown);
        self.asm.bind(found);
    }

    /// R7 = this thread, if it is the process's; what passed before a new one's first entry or
    /// exit is dropped by its first close().
    fn current(&mut self, process: u32, done: Label) {
        let (found, full) = (self.asm.label(), self.asm.label());
        self.asm.call(Helper::CurrentPidTgid);
        self.asm.alu(Mov, R1, R0);
        self.asm.alu_imm(Rsh, R1, 32);
        self.asm.set_u32(R2, process);
        self.asm.jump_if(Different, R1, R2, done);
        self.asm.store(Size::B4, R10, TID, R0);
        self.only_while_on(done);
        self.now();
        for probe in 0..self.maps.threads.probes {
            let (free, next) = (self.asm.label(), self.asm.label());
            self.asm.load(Size::B4, R1, R10, TID);
            self.probe(self.maps.threads, probe, R7, &ProbeLabels { free, same: found, next });
            self.asm.bind(free);
            self.take(self.maps.threads, R7, next, full);
            self.asm.alu(Mov, R1, R7);
            self.asm.alu_imm(Add, R1, i32::from(thread::COMM));
            self.asm.alu_imm(Mov, R2, thread::BYTES as i32 - i32::from(thread::COMM));
            self.asm.call(Helper::CurrentComm);
            self.asm.jump(found);
            self.asm.bind(next);
        }
        self.asm.bind(full);
        self.lose();
        self.asm.jump(done);
        self.asm.bind(found);
    }

    /// Copies a word by way of R1, which has it then.
    fn copy(&mut self, (to, to_word): (Reg, i16), (from, from_word): (Reg, i16)) {
        self.asm.load(Size::B8, R1, from, from_word);
        self.asm.store(Size::B8, to, to_word, R1);
    }

    fn count(&mut self, base: Reg, word: i16) {
        self.asm.load(Size::B8, R1, base, word);
        self.asm.alu_imm(Add, R1, 1);
        self.asm.store(Size::B8, base, word, R1);
    }

    fn add(&mut self, base: Reg, word: i16, amount: Reg) {
        self.asm.load(Size::B8, R1, base, word);
        self.asm.alu(Add, R1, amount);
        self.asm.store(Size::B8, base, word, R1);
    }

    /// Writes what `block` writes, and a jump over it if `a condition b`.
    fn unless(&mut self, condition: Condition, a: Reg, b: Reg, block: impl FnOnce(&mut Self)) {
        let over = self.asm.label();
        self.asm.jump_if(condition, a, b, over);
        block(self);
        self.asm.bind(over);
    }

    /// Adds the time since the thread's last event to its stage. The kernel's fast clock may
    /// step back by a little between two CPUs.
    fn account(&mut self) {
        self.asm.load(Size::B8, R1, R7, thread::SINCE);
        self.unless(AtLeast, R8, R1, |this| this.asm.alu(Mov, R8, R1));
        self.asm.alu(Mov, R2, R8);
        self.asm.alu(Sub, R2, R1);
        self.set(thread::SINCE, R8);
        self.asm.load(Size::B8, R3, R7, thread::STAGE);
        self.asm.alu_imm(And, R3, STAGES as i32 - 1);
        self.asm.alu_imm(Lsh, R3, 3);
        self.asm.alu(Add, R3, R7);
        self.add(R3, thread::PARTS, R2);
    }

    /// Notes the first entry or exit of a thread, where its table begins.
    fn begin(&mut self) {
        let begun = self.asm.label();
        self.asm.load(Size::B8, R1, R7, thread::FIRST);
        self.asm.jump_if_imm(Different, R1, 0, begun);
        self.set(thread::FIRST, R8);
        self.asm.bind(begun);
    }

    /// `to` = the slot with the number in R1 plus `probe`; jumps by its owner.
    fn probe(&mut self, slots: Slots, probe: i32, to: Reg, on: &ProbeLabels) {
        self.asm.alu_imm(Add, R1, probe);
        self.asm.alu_imm(And, R1, slots.room as i32 - 1);
        self.asm.store(Size::B4, R10, INDEX, R1);
        self.look_up(slots.map, INDEX);
        self.asm.jump_if_imm(Equal, R0, 0, on.next);
        self.asm.alu(Mov, to, R0);
        self.asm.load(Size::B8, R1, to, slots.tid);
        self.asm.jump_if_imm(Equal, R1, 0, on.free);
        self.asm.load(Size::B4, R2, R10, TID);
        self.asm.jump_if(Equal, R1, R2, on.same);
        self.asm.jump(on.next);
    }

    /// Takes the slot that was just looked at and writes the thread's id into it; `next` where
    /// another CPU was faster, `full` where the kernel has no room or no time.
    fn take(&mut self, slots: Slots, slot: Reg, next: Label, full: Label) {
        self.asm.load(Size::B4, R1, R10, INDEX);
        self.asm.store(Size::B4, R10, CLAIM, R1);
        self.asm.alu_imm(Mov, R1, slots.kind);
        self.asm.store(Size::B4, R10, CLAIM + 4, R1);
        self.asm.map(R1, self.maps.taken);
        self.address(R2, CLAIM);
        self.address(R3, CLAIM);
        self.asm.alu_imm(Mov, R4, BPF_NOEXIST);
        self.asm.call(Helper::MapUpdate);
        self.asm.jump_if_imm(Equal, R0, -EEXIST, next);
        self.asm.jump_if_imm(Different, R0, 0, full);
        self.asm.load(Size::B4, R1, R10, TID);
        self.asm.store(Size::B8, slot, slots.tid, R1);
    }

    fn lose(&mut self) {
        let gone = self.asm.label();
        self.state(Maps::LOST, gone);
        self.count(R0, 0);
        self.asm.bind(gone);
    }

    /// Jumps to `off` while events do not count. They count while all programs run: some of them
    /// without the others would book an exit as the guest's time.
    fn only_while_on(&mut self, off: Label) {
        self.state(Maps::IS_ON, off);
        self.asm.load(Size::B8, R1, R0, 0);
        self.asm.jump_if_imm(Equal, R1, 0, off);
    }

    /// R0 = the address of this word of the state.
    fn state(&mut self, word: u32, gone: Label) {
        self.asm.set_u32(R1, word);
        self.asm.store(Size::B4, R10, INDEX, R1);
        self.look_up(self.maps.state, INDEX);
        self.asm.jump_if_imm(Equal, R0, 0, gone);
    }

    fn address(&mut self, to: Reg, offset: i16) {
        self.asm.alu(Mov, to, R10);
        self.asm.alu_imm(Add, to, i32::from(offset));
    }

    fn look_up(&mut self, map: i32, key: i16) {
        self.asm.map(R1, map);
        self.address(R2, key);
        self.asm.call(Helper::MapLookup);
    }

    /// Closes the open interval: `expected` if it is open, else `other`, unpaired.
    fn close(&mut self, [expected, other]: [i16; 2]) {
        let (paired, keyed) = (self.asm.label(), self.asm.label());
        let (nothing, full) = (self.asm.label(), self.asm.label());
        self.asm.load(Size::B8, R9, R7, expected);
        self.asm.jump_if_imm(Different, R9, 0, paired);
        self.asm.load(Size::B8, R9, R7, other);
        self.asm.jump_if_imm(Equal, R9, 0, nothing);
        self.count(R7, thread::UNPAIRED);
        self.write_key(other);
        self.asm.jump(keyed);
        self.asm.bind(paired);
        self.write_key(expected);
        self.asm.bind(keyed);
        self.asm.alu(Mov, R1, R8);
        self.asm.alu(Sub, R1, R9);
        self.asm.alu(Mov, R9, R1);
        self.find_row(full);
        self.book();
        self.asm.jump(nothing);
        self.asm.bind(full);
        self.lose();
        self.asm.bind(nothing);
        self.asm.alu_imm(Mov, R1, 0);
        (0..STAGES as i16).for_each(|part| self.set(thread::PARTS + 8 * part, R1));
    }

    /// Writes the key of the interval that began at this word, and its hash.
    fn write_key(&mut self, began: i16) {
        if began == thread::ENTRY_AT {
            // The key of the guest is all ones: the immediate is sign-extended.
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
        // Multipliers that spread what differs in low bits over the high ones.
        self.asm.load(Size::B4, R3, R10, TID);
        for (reg, factor) in [(R1, 0x2c1b_3c6d), (R2, 0x297a_2d39), (R3, 0x1b87_3593)] {
            self.asm.alu_imm(Mul, reg, factor);
        }
        self.asm.alu(Add, R1, R2);
        self.asm.alu(Add, R1, R3);
        self.asm.alu_imm(Rsh, R1, 16);
        self.asm.store(Size::B8, R10, HASH, R1);
    }

    /// R6 = the row of the key, which may be new; jumps to `full` if found is no room.
    fn find_row(&mut self, full: Label) {
        let found = self.asm.label();
        for probe in 0..self.maps.rows.probes {
            let (free, same, next) = (self.asm.label(), self.asm.label(), self.asm.label());
            self.asm.load(Size::B8, R1, R10, HASH);
            self.probe(self.maps.rows, probe, R6, &ProbeLabels { free, same, next });
            self.asm.bind(free);
            self.take(self.maps.rows, R6, next, full);
            self.copy((R6, row::CODE), (R10, KEY_CODE));
            self.copy((R6, row::DETAIL), (R10, KEY_DETAIL));
            self.asm.jump(found);
            self.asm.bind(same);
            for (from, word) in [(KEY_CODE, row::CODE), (KEY_DETAIL, row::DETAIL)] {
                self.asm.load(Size::B8, R1, R6, word);
                self.asm.load(Size::B8, R2, R10, from);
                self.asm.jump_if(Different, R1, R2, next);
            }
            self.asm.jump(found);
            self.asm.bind(next);
        }
        self.asm.jump(full);
        self.asm.bind(found);
    }

    /// Adds R9 and the thread's parts to the row R6.
    fn book(&mut self) {
        let (is_least, least) = (self.asm.label(), self.asm.label());
        self.asm.load(Size::B8, R2, R6, row::COUNT);
        self.count(R6, row::COUNT);
        self.add(R6, row::SUM, R9);
        self.asm.jump_if_imm(Equal, R2, 0, is_least);
        self.asm.load(Size::B8, R1, R6, row::LEAST);
        self.asm.jump_if(AtLeast, R9, R1, least);
        self.asm.bind(is_least);
        self.asm.store(Size::B8, R6, row::LEAST, R9);
        self.asm.bind(least);
        self.asm.load(Size::B8, R1, R6, row::MOST);
        self.unless(AtLeast, R1, R9, |this| this.asm.store(Size::B8, R6, row::MOST, R9));
        for part in (0..STAGES as i16).map(|part| 8 * part) {
            self.asm.load(Size::B8, R2, R7, thread::PARTS + part);
            self.add(R6, row::PARTS + part, R2);
        }
        self.square();
        self.count_bucket();
    }

    /// Adds R9² to the row's 128 bits: with R9 = a·2³² + b, it is a²·2⁶⁴ + ab·2³³ + b².
    fn square(&mut self) {
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

    /// Counts R9 in its bucket, as `stats::tables::bucket` has it.
    fn count_bucket(&mut self) {
        let small = self.asm.label();
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
        // R2 is the logarithm.
        self.asm.jump_if_imm(Below, R2, 3, small);
        self.asm.alu_imm(Add, R2, -3);
        self.asm.alu(Rsh, R3, R2);
        self.asm.alu_imm(And, R3, 7);
        self.asm.alu_imm(Add, R2, 1);
        self.asm.alu_imm(Lsh, R2, 3);
        self.asm.alu(Add, R3, R2);
        self.asm.bind(small);
        self.asm.alu_imm(And, R3, BUCKETS as i32 - 1);
        self.asm.alu_imm(Lsh, R3, 3);
        self.asm.alu(Mov, R5, R6);
        self.asm.alu(Add, R5, R3);
        self.count(R5, row::BUCKETS);
    }
}

/// A register; R10 is the frame.
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

/// Functions of the kernel (include/uapi/linux/bpf.h).
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
    fn emit(&mut self, op: u8, dst: Reg, src: u8, offset: i16, imm: i32) {
        let registers = match cfg!(target_endian = "big") {
            true => (dst as u8) << 4 | src,
            false => src << 4 | dst as u8,
        };
        let ([o0, o1], [i0, i1, i2, i3]) = (offset.to_ne_bytes(), imm.to_ne_bytes());
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

    /// `dst = src`, its upper half cleared.
    fn low_half(&mut self, dst: Reg, src: Reg) {
        self.emit(ALU32 | FROM_REG | Alu::Mov as u8, dst, src as u8, 0, 0);
    }

    /// `dst = imm`, its upper half cleared.
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

    /// `dst = map`, which the kernel turns into a pointer.
    fn map(&mut self, dst: Reg, fd: i32) {
        self.emit(LOAD_IMM64, dst, PSEUDO_MAP_FD, 0, fd);
        self.emit(0, Reg::R0, 0, 0, 0);
    }

    /// Calls the kernel; R1 to R5 are lost, R0 is the return value.
    fn call(&mut self, helper: Helper) {
        self.emit(CALL, Reg::R0, 0, 0, helper as i32);
    }

    /// Ends the program with 1, since 0 would take the event away from other users of the
    /// tracepoint (perf_trace_run_bpf_submit).
    fn exit(&mut self) {
        self.alu_imm(Alu::Mov, Reg::R0, 1);
        self.emit(EXIT, Reg::R0, 0, 0, 0);
    }

    /// Makes a label without a position.
    fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

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

    /// Jumps if `a condition imm`, which is sign-extended.
    fn jump_if_imm(&mut self, condition: Condition, a: Reg, imm: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(JMP | condition as u8, a, 0, 0, imm);
    }

    /// Returns the finished program. Panics where a label was never bound: a mistake of the
    /// program's author, which any test of it finds.
    fn finish(mut self) -> Vec<u8> {
        for (index, label) in &self.jumps {
            let to = self.labels[label.0].expect("every label is bound");
            let distance =
                i16::try_from(to as i64 - *index as i64 - 1).expect("programs are short");
            self.code[*index][2..4].copy_from_slice(&distance.to_ne_bytes());
        }
        self.code.concat()
    }
}
