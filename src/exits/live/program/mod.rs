//! The programs that add exits up in the kernel. `fold.rs` says the same in Rust, and a test holds
//! them against each other.
//!
//! Registers: R6 the record, later a row; R7 the thread; R8 now; R9 a duration. Only integers; no
//! loops; a thread's words are written only where it runs, is switched, or sleeps.

mod place;
mod row;
mod stack;
mod thread;

use super::asm::Alu::{And, Arsh, Lsh, Mov, Rsh};
use super::asm::Reg::{R1, R2, R6, R7, R8, R10};
use super::asm::When::{Eq, Lt, Ne};
use super::asm::{Assembler, Label, Size};
use super::hook::{ASLEEP, Field, Hook, Only};
use super::words::{row as row_word, thread as word};
use crate::exits::recording::Stage;
use place::Places;
use stack::{CODE, DETAIL};

/// The maps, as file descriptors of this process.
#[derive(Debug, Clone, Copy)]
pub struct Maps {
    /// Of [`word`], by thread id.
    pub threads: Places,
    /// Of [`super::words::row`], by thread id, detail and code.
    pub rows: Places,
    /// The places that are taken: their number and kind, of four bytes each.
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

    /// From the descriptors.
    pub fn new([threads, rows, taken, state]: [i32; 4]) -> Maps {
        let threads = Places {
            map: threads,
            room: Maps::THREADS,
            probes: 4,
            kind: Maps::KIND_OF_THREADS,
            tid: word::TID,
        };
        let rows = Places {
            map: rows,
            room: Maps::ROWS,
            probes: 16,
            kind: Maps::KIND_OF_ROWS,
            tid: row_word::TID,
        };
        Maps { threads, rows, taken, state }
    }
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

struct Writer {
    asm: Assembler,
    maps: Maps,
}

impl Writer {
    fn enter(&mut self, only: Option<Only>, process: u32, done: Label) {
        self.only(only, done);
        self.current(process, done);
        self.account();
        self.begin();
        self.close([word::EXIT_AT, word::ENTRY_AT]);
        self.set(word::ENTRY_AT, R8);
        self.set_imm(word::EXIT_AT, 0);
        self.set_imm(word::STAGE, Stage::Kernel as i32);
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

    /// The guest was left for what stands in CODE and DETAIL.
    fn left(&mut self, to: Stage) {
        self.account();
        self.begin();
        self.close([word::ENTRY_AT, word::EXIT_AT]);
        for (from, word) in [(CODE, word::REASON), (DETAIL, word::DETAIL)] {
            self.asm.load(Size::B8, R1, R10, from);
            self.set(word, R1);
        }
        self.set(word::EXIT_AT, R8);
        self.set_imm(word::ENTRY_AT, 0);
        self.set_imm(word::STAGE, to as i32);
    }

    fn moves(&mut self, only: Option<Only>, to: Stage, process: u32, done: Label) {
        self.only(only, done);
        self.current(process, done);
        self.account();
        self.set_imm(word::STAGE, to as i32);
    }

    fn switch(&mut self, from: Field, state: Field, to: Field, done: Label) {
        let (next, preempted, is_on) = (self.asm.label(), self.asm.label(), self.asm.label());
        self.now();
        self.field(R1, from);
        self.known(next);
        self.account();
        self.asm.load(Size::B8, R1, R7, word::STAGE);
        self.asm.jump_if_imm(Lt, R1, Stage::FIRST_OFF as i32, is_on);
        // Off already: its being on was not seen.
        self.asm.load(Size::B8, R1, R7, word::SAVED);
        self.set(word::STAGE, R1);
        self.asm.place(is_on);
        self.set(word::SAVED, R1);
        self.field(R2, state);
        self.asm.alu_imm(And, R2, ASLEEP);
        self.asm.jump_if_imm(Eq, R2, 0, preempted);
        // Asleep in the VMM is the VMM's time.
        self.asm.jump_if_imm(Eq, R1, Stage::User as i32, next);
        self.set_imm(word::STAGE, Stage::Halted as i32);
        self.asm.jump(next);
        self.asm.place(preempted);
        self.set_imm(word::STAGE, Stage::Preempted as i32);
        self.asm.place(next);
        self.field(R1, to);
        self.known(done);
        self.account();
        // On already, where its being off was not seen.
        self.asm.load(Size::B8, R1, R7, word::STAGE);
        self.asm.jump_if_imm(Lt, R1, Stage::FIRST_OFF as i32, done);
        self.asm.load(Size::B8, R1, R7, word::SAVED);
        self.set(word::STAGE, R1);
    }

    fn wakeup(&mut self, who: Field, done: Label) {
        self.now();
        self.field(R1, who);
        self.known(done);
        self.asm.load(Size::B8, R1, R7, word::STAGE);
        self.asm.jump_if_imm(Ne, R1, Stage::Halted as i32, done);
        self.account();
        self.set_imm(word::STAGE, Stage::Preempted as i32);
    }
}
