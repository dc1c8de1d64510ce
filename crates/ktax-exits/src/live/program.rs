//! The programs that add exits up in the kernel. `Fold` in `recording.rs` does the same in Rust,
//! and a test compares them.
//!
//! Registers: R6 the record, later a row; R7 the thread; R8 now; R9 a duration. Only integers; no
//! loops; a thread's words are written only where it runs, is switched, or sleeps.

use super::bpf::Alu::{Add, And, Arsh, Lsh, Mov, Mul, Rsh, Sub};
use super::bpf::Condition::{Eq, Ge, Lt, Ne};
use super::bpf::Reg::{self, R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use super::bpf::{Assembler, Helper, Label, Size};
use super::kernel::{row, thread};
use super::tracepoints::{ASLEEP, Field, FieldFilter, Hook};
use crate::recording::{Reason, STAGES, Stage};
use ktax_stats::histogram::BUCKETS;

/// A map that is an array of slots. A slot is free where the thread's id is 0.
#[derive(Debug, Clone, Copy)]
pub struct Slots {
    pub map: i32,
    /// A power of two.
    pub room: u32,
    /// Number of slots that are tried before there is no room.
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
    /// The slots that are taken: their number and kind, of four bytes each.
    pub taken: i32,
    /// Two words: events that found no room, and whether events count.
    pub state: i32,
}

impl Maps {
    /// Threads that enter a guest, and reasons of all of them together.
    pub const THREADS: u32 = 4096;
    pub const ROWS: u32 = 8192;
    pub const KIND_OF_THREADS: i32 = 0;
    pub const KIND_OF_ROWS: i32 = 1;
    pub const LOST: u32 = 0;
    pub const IS_ON: u32 = 1;

    /// Makes the maps of these descriptors.
    pub fn new([threads, rows, taken, state]: [i32; 4]) -> Maps {
        let threads = Slots {
            map: threads,
            room: Maps::THREADS,
            probes: 4,
            kind: Maps::KIND_OF_THREADS,
            tid: thread::TID,
        };
        let rows = Slots {
            map: rows,
            room: Maps::ROWS,
            probes: 16,
            kind: Maps::KIND_OF_ROWS,
            tid: row::TID,
        };
        Maps { threads, rows, taken, state }
    }
}

/// Offsets of variables in the stack frame.
const INDEX: i16 = -4;
const TID: i16 = -8;
const CODE: i16 = -16;
const DETAIL: i16 = -24;
/// Key of the row that is looked for, beside TID.
const KEY_CODE: i16 = -32;
const KEY_DETAIL: i16 = -40;
/// Slot in which a row is looked for first.
const HASH: i16 = -48;
const CLAIM: i16 = -56;

/// Flag of an update: fail if the key is there.
const BPF_NOEXIST: i32 = 1;
/// Error of such an update: the key is there.
const EEXIST: i32 = 17;

/// Labels at which a probe goes on.
struct ProbeLabels {
    /// The slot is free.
    free: Label,
    /// The slot is this thread's.
    same: Label,
    /// The slot is another's.
    next: Label,
}

/// Writes one program.
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
        Hook::ToUser => writer.moves(None, Stage::User, process, done),
        Hook::ToKernel { only } => writer.moves(Some(only), Stage::Kernel, process, done),
        Hook::Switch { from, state, to } => writer.switch(from, state, to, done),
        Hook::Wakeup { thread } => writer.wakeup(thread, done),
    }
    writer.asm.place(done);
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
        self.asm.store(Size::B8, R10, DETAIL, R1);
        self.left(Stage::Kernel);
    }

    fn returns(&mut self, reason: Field, errno: Field, process: u32, done: Label) {
        self.current(process, done);
        let fine = self.asm.label();
        self.field(R1, errno);
        self.asm.alu_imm(Lsh, R1, 32);
        self.asm.alu_imm(Arsh, R1, 32);
        self.asm.alu(Mov, R2, R1);
        self.asm.alu_imm(Rsh, R2, 63);
        self.asm.jump_if_imm(Ne, R2, 0, fine);
        self.field(R1, reason);
        self.asm.place(fine);
        self.asm.store(Size::B8, R10, CODE, R1);
        self.asm.alu_imm(Mov, R1, 0);
        self.asm.store(Size::B8, R10, DETAIL, R1);
        self.left(Stage::User);
    }

    /// Books an exit, whose reason is in CODE and DETAIL.
    fn left(&mut self, to: Stage) {
        self.account();
        self.begin();
        self.close([thread::ENTRY_AT, thread::EXIT_AT]);
        for (from, word) in [(CODE, thread::REASON), (DETAIL, thread::DETAIL)] {
            self.asm.load(Size::B8, R1, R10, from);
            self.set(word, R1);
        }
        self.set(thread::EXIT_AT, R8);
        self.set_imm(thread::ENTRY_AT, 0);
        self.set_imm(thread::STAGE, to as i32);
    }

    fn moves(&mut self, only: Option<FieldFilter>, to: Stage, process: u32, done: Label) {
        self.only(only, done);
        self.current(process, done);
        self.account();
        self.set_imm(thread::STAGE, to as i32);
    }

    fn switch(&mut self, from: Field, state: Field, to: Field, done: Label) {
        let (next, preempted, is_on) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.now();
        self.field(R1, from);
        self.known(next);
        self.account();
        self.asm.load(Size::B8, R1, R7, thread::STAGE);
        self.asm.jump_if_imm(Lt, R1, Stage::FIRST_OFF as i32, is_on);
        // Off already: its being on was not seen.
        self.asm.load(Size::B8, R1, R7, thread::SAVED);
        self.set(thread::STAGE, R1);
        self.asm.place(is_on);
        self.set(thread::SAVED, R1);
        self.field(R2, state);
        self.asm.alu_imm(And, R2, ASLEEP);
        self.asm.jump_if_imm(Eq, R2, 0, preempted);
        // Asleep in the VMM is the VMM's time.
        self.asm.jump_if_imm(Eq, R1, Stage::User as i32, next);
        self.set_imm(thread::STAGE, Stage::Halted as i32);
        self.asm.jump(next);
        self.asm.place(preempted);
        self.set_imm(thread::STAGE, Stage::Preempted as i32);
        self.asm.place(next);
        self.field(R1, to);
        self.known(done);
        self.account();
        // On already, where its being off was not seen.
        self.asm.load(Size::B8, R1, R7, thread::STAGE);
        self.asm.jump_if_imm(Lt, R1, Stage::FIRST_OFF as i32, done);
        self.asm.load(Size::B8, R1, R7, thread::SAVED);
        self.set(thread::STAGE, R1);
    }

    fn wakeup(&mut self, who: Field, done: Label) {
        self.now();
        self.field(R1, who);
        self.known(done);
        self.asm.load(Size::B8, R1, R7, thread::STAGE);
        self.asm.jump_if_imm(Ne, R1, Stage::Halted as i32, done);
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
            self.asm.jump_if(Ne, R1, R2, done);
        }
    }

    fn now(&mut self) {
        self.asm.call(Helper::KtimeGetNs);
        self.asm.alu(Mov, R8, R0);
    }

    /// R7 = the thread with the id in R1; jumps to `unknown` if the map does not have it.
    fn known(&mut self, unknown: Label) {
        self.asm.store(Size::B4, R10, TID, R1);
        let there = self.asm.label();
        for probe in 0..self.maps.threads.probes {
            let next = self.asm.label();
            self.asm.load(Size::B4, R1, R10, TID);
            let on = ProbeLabels { free: unknown, same: there, next };
            self.probe(self.maps.threads, probe, R7, &on);
            self.asm.place(next);
        }
        self.asm.jump(unknown);
        self.asm.place(there);
    }

    /// R7 = this thread, if it is the process's; what passed before a new one's first entry or
    /// exit is dropped by its first close().
    fn current(&mut self, process: u32, done: Label) {
        let (there, full) = (self.asm.label(), self.asm.label());
        self.asm.call(Helper::CurrentPidTgid);
        self.asm.alu(Mov, R1, R0);
        self.asm.alu_imm(Rsh, R1, 32);
        self.asm.set_u32(R2, process);
        self.asm.jump_if(Ne, R1, R2, done);
        self.asm.store(Size::B4, R10, TID, R0);
        self.only_while_on(done);
        self.now();
        for probe in 0..self.maps.threads.probes {
            let (free, next) = (self.asm.label(), self.asm.label());
            self.asm.load(Size::B4, R1, R10, TID);
            self.probe(self.maps.threads, probe, R7, &ProbeLabels { free, same: there, next });
            self.asm.place(free);
            self.take(self.maps.threads, R7, next, full);
            self.asm.alu(Mov, R1, R7);
            self.asm.alu_imm(Add, R1, i32::from(thread::COMM));
            self.asm.alu_imm(Mov, R2, thread::BYTES as i32 - i32::from(thread::COMM));
            self.asm.call(Helper::CurrentComm);
            self.asm.jump(there);
            self.asm.place(next);
        }
        self.asm.place(full);
        self.lose();
        self.asm.jump(done);
        self.asm.place(there);
    }

    fn add_to(&mut self, base: Reg, word: i16, value: i32) {
        self.asm.load(Size::B8, R1, base, word);
        self.asm.alu_imm(Add, R1, value);
        self.asm.store(Size::B8, base, word, R1);
    }

    /// Adds the time since the thread's last event to its stage. The kernel's fast clock may
    /// step back by a little between two CPUs.
    fn account(&mut self) {
        let forward = self.asm.label();
        self.asm.load(Size::B8, R1, R7, thread::SINCE);
        self.asm.jump_if(Ge, R8, R1, forward);
        self.asm.alu(Mov, R8, R1);
        self.asm.place(forward);
        self.asm.alu(Mov, R2, R8);
        self.asm.alu(Sub, R2, R1);
        self.set(thread::SINCE, R8);
        self.asm.load(Size::B8, R3, R7, thread::STAGE);
        self.asm.alu_imm(And, R3, STAGES as i32 - 1);
        self.asm.alu_imm(Lsh, R3, 3);
        self.asm.alu(Add, R3, R7);
        self.asm.load(Size::B8, R1, R3, thread::PARTS);
        self.asm.alu(Add, R1, R2);
        self.asm.store(Size::B8, R3, thread::PARTS, R1);
    }

    /// Notes the first entry or exit of a thread: there its table begins.
    fn begin(&mut self) {
        let begun = self.asm.label();
        self.asm.load(Size::B8, R1, R7, thread::FIRST);
        self.asm.jump_if_imm(Ne, R1, 0, begun);
        self.set(thread::FIRST, R8);
        self.asm.place(begun);
    }

    /// `to` = the slot with the number in R1 plus `probe`; jumps by whose it is.
    fn probe(&mut self, slots: Slots, probe: i32, to: Reg, on: &ProbeLabels) {
        self.asm.alu_imm(Add, R1, probe);
        self.asm.alu_imm(And, R1, slots.room as i32 - 1);
        self.asm.store(Size::B4, R10, INDEX, R1);
        self.look_up(slots.map, INDEX);
        self.asm.jump_if_imm(Eq, R0, 0, on.next);
        self.asm.alu(Mov, to, R0);
        self.asm.load(Size::B8, R1, to, slots.tid);
        self.asm.jump_if_imm(Eq, R1, 0, on.free);
        self.asm.load(Size::B4, R2, R10, TID);
        self.asm.jump_if(Eq, R1, R2, on.same);
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
        self.asm.jump_if_imm(Eq, R0, -EEXIST, next);
        self.asm.jump_if_imm(Ne, R0, 0, full);
        self.asm.load(Size::B4, R1, R10, TID);
        self.asm.store(Size::B8, slot, slots.tid, R1);
    }

    /// Counts an event that found no room.
    fn lose(&mut self) {
        let gone = self.asm.label();
        self.state(Maps::LOST, gone);
        self.add_to(R0, 0, 1);
        self.asm.place(gone);
    }

    /// Jumps to `off` while events do not count. They count from when all programs run until the
    /// first no longer does: some of them without the others would book an exit as the guest's
    /// time.
    fn only_while_on(&mut self, off: Label) {
        self.state(Maps::IS_ON, off);
        self.asm.load(Size::B8, R1, R0, 0);
        self.asm.jump_if_imm(Eq, R1, 0, off);
    }

    /// R0 = the address of this word of the state.
    fn state(&mut self, word: u32, gone: Label) {
        self.asm.set_u32(R1, word);
        self.asm.store(Size::B4, R10, INDEX, R1);
        self.look_up(self.maps.state, INDEX);
        self.asm.jump_if_imm(Eq, R0, 0, gone);
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
        self.asm.jump_if_imm(Ne, R9, 0, paired);
        self.asm.load(Size::B8, R9, R7, other);
        self.asm.jump_if_imm(Eq, R9, 0, nothing);
        self.add_to(R7, thread::UNPAIRED, 1);
        self.write_key(other);
        self.asm.jump(keyed);
        self.asm.place(paired);
        self.write_key(expected);
        self.asm.place(keyed);
        self.asm.alu(Mov, R1, R8);
        self.asm.alu(Sub, R1, R9);
        self.asm.alu(Mov, R9, R1);
        self.find(full);
        self.book();
        self.asm.jump(nothing);
        self.asm.place(full);
        self.lose();
        self.asm.place(nothing);
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

    /// R6 = the row of the key, which may be new; jumps to `full` if there is no room.
    fn find(&mut self, full: Label) {
        let there = self.asm.label();
        for probe in 0..self.maps.rows.probes {
            let (free, same, next) = (self.asm.label(), self.asm.label(), self.asm.label());
            self.asm.load(Size::B8, R1, R10, HASH);
            self.probe(self.maps.rows, probe, R6, &ProbeLabels { free, same, next });
            self.asm.place(free);
            self.take(self.maps.rows, R6, next, full);
            for (from, word) in [(KEY_CODE, row::CODE), (KEY_DETAIL, row::DETAIL)] {
                self.asm.load(Size::B8, R1, R10, from);
                self.asm.store(Size::B8, R6, word, R1);
            }
            self.asm.jump(there);
            self.asm.place(same);
            for (from, word) in [(KEY_CODE, row::CODE), (KEY_DETAIL, row::DETAIL)] {
                self.asm.load(Size::B8, R1, R6, word);
                self.asm.load(Size::B8, R2, R10, from);
                self.asm.jump_if(Ne, R1, R2, next);
            }
            self.asm.jump(there);
            self.asm.place(next);
        }
        self.asm.jump(full);
        self.asm.place(there);
    }

    /// Adds R9 and the thread's parts to the row R6.
    fn book(&mut self) {
        let (is_least, least, most) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.asm.load(Size::B8, R2, R6, row::COUNT);
        self.add_to(R6, row::COUNT, 1);
        self.asm.load(Size::B8, R1, R6, row::SUM);
        self.asm.alu(Add, R1, R9);
        self.asm.store(Size::B8, R6, row::SUM, R1);
        self.asm.jump_if_imm(Eq, R2, 0, is_least);
        self.asm.load(Size::B8, R1, R6, row::LEAST);
        self.asm.jump_if(Lt, R9, R1, is_least);
        self.asm.jump(least);
        self.asm.place(is_least);
        self.asm.store(Size::B8, R6, row::LEAST, R9);
        self.asm.place(least);
        self.asm.load(Size::B8, R1, R6, row::MOST);
        self.asm.jump_if(Ge, R1, R9, most);
        self.asm.store(Size::B8, R6, row::MOST, R9);
        self.asm.place(most);
        for part in (0..STAGES as i16).map(|part| 8 * part) {
            let nothing = self.asm.label();
            self.asm.load(Size::B8, R1, R7, thread::PARTS + part);
            self.asm.jump_if_imm(Eq, R1, 0, nothing);
            self.asm.load(Size::B8, R2, R6, row::PARTS + part);
            self.asm.alu(Add, R2, R1);
            self.asm.store(Size::B8, R6, row::PARTS + part, R2);
            self.asm.place(nothing);
        }
        self.square();
        self.count_bucket();
    }

    /// Adds R9² to the row's 128 bits: with R9 = a·2³² + b, it is a²·2⁶⁴ + ab·2³³ + b².
    fn square(&mut self) {
        let (first, second) = (self.asm.label(), self.asm.label());
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
        self.asm.jump_if(Ge, R4, R1, first);
        self.asm.alu_imm(Add, R2, 1);
        self.asm.place(first);
        self.asm.load(Size::B8, R1, R6, row::SQUARES_LOW);
        self.asm.alu(Add, R1, R4);
        self.asm.jump_if(Ge, R1, R4, second);
        self.asm.alu_imm(Add, R2, 1);
        self.asm.place(second);
        self.asm.store(Size::B8, R6, row::SQUARES_LOW, R1);
        self.asm.load(Size::B8, R1, R6, row::SQUARES_HIGH);
        self.asm.alu(Add, R1, R2);
        self.asm.store(Size::B8, R6, row::SQUARES_HIGH, R1);
    }

    /// Counts R9 in its bucket, as `stats::histogram::bucket` has it.
    fn count_bucket(&mut self) {
        let small = self.asm.label();
        self.asm.alu(Mov, R3, R9);
        self.asm.alu_imm(Mov, R2, 0);
        self.asm.alu(Mov, R1, R9);
        for shift in [32, 16, 8, 4, 2, 1] {
            let skip = self.asm.label();
            self.asm.set_u32(R4, if shift == 32 { u32::MAX } else { (1 << shift) - 1 });
            self.asm.jump_if(Ge, R4, R1, skip);
            self.asm.alu_imm(Rsh, R1, shift);
            self.asm.alu_imm(Add, R2, shift);
            self.asm.place(skip);
        }
        // R2 is the logarithm.
        self.asm.jump_if_imm(Lt, R2, 3, small);
        self.asm.alu_imm(Add, R2, -3);
        self.asm.alu(Rsh, R3, R2);
        self.asm.alu_imm(And, R3, 7);
        self.asm.alu_imm(Add, R2, 1);
        self.asm.alu_imm(Lsh, R2, 3);
        self.asm.alu(Add, R3, R2);
        self.asm.place(small);
        self.asm.alu_imm(And, R3, BUCKETS as i32 - 1);
        self.asm.alu_imm(Lsh, R3, 3);
        self.asm.alu(Mov, R5, R6);
        self.asm.alu(Add, R5, R3);
        self.add_to(R5, row::BUCKETS, 1);
    }
}
