//! Which thread an event is of, and what its time went to.

use super::place::Probe;
use super::stack::TID;
use super::writer::Writer;
use crate::live::asm::Alu::{Add, And, Lsh, Mov, Rsh, Sub};
use crate::live::asm::Reg::{self, R0, R1, R2, R3, R6, R7, R8, R10};
use crate::live::asm::When::{Ge, Ne};
use crate::live::asm::{Helper, Label, Size};
use crate::live::hook::{Field, Only};
use crate::live::words::thread;
use crate::recording::STAGES;

impl Writer {
    pub(super) fn field(&mut self, to: Reg, field: Field) {
        let size = match field.size {
            1 => Size::B1,
            2 => Size::B2,
            4 => Size::B4,
            _ => Size::B8,
        };
        self.asm.load(size, to, R6, field.offset as i16);
    }

    pub(super) fn set(&mut self, word: i16, from: Reg) {
        self.asm.store(Size::B8, R7, word, from);
    }

    pub(super) fn set_imm(&mut self, word: i16, value: i32) {
        self.asm.alu_imm(Mov, R1, value);
        self.set(word, R1);
    }

    pub(super) fn only(&mut self, only: Option<Only>, done: Label) {
        if let Some(Only { field, value }) = only {
            // Its low half: the kernel records what user space passed, and KVM looks at 32 bits.
            self.asm.load(Size::B4, R1, R6, field.offset as i16);
            self.asm.set_u32(R2, value);
            self.asm.jump_if(Ne, R1, R2, done);
        }
    }

    pub(super) fn now(&mut self) {
        self.asm.call(Helper::KtimeGetNs);
        self.asm.alu(Mov, R8, R0);
    }

    /// R7 is the thread with the id in R1; elsewhere if it is not one of ours.
    pub(super) fn known(&mut self, unknown: Label) {
        self.asm.store(Size::B4, R10, TID, R1);
        let there = self.asm.label();
        for probe in 0..self.maps.threads.probes {
            let next = self.asm.label();
            self.asm.load(Size::B4, R1, R10, TID);
            let on = Probe { free: unknown, same: there, next };
            self.probe(self.maps.threads, probe, R7, &on);
            self.asm.place(next);
        }
        self.asm.jump(unknown);
        self.asm.place(there);
    }

    /// R7 is this thread, if it is the process's; what passed before a new one's first entry or
    /// exit is dropped by its first close().
    pub(super) fn current(&mut self, process: u32, done: Label) {
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
            self.probe(self.maps.threads, probe, R7, &Probe { free, same: there, next });
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

    pub(super) fn add_to(&mut self, base: Reg, word: i16, value: i32) {
        self.asm.load(Size::B8, R1, base, word);
        self.asm.alu_imm(Add, R1, value);
        self.asm.store(Size::B8, base, word, R1);
    }

    /// The time since the thread's last event belongs to its stage. The kernel's fast clock may
    /// step back by a little between two CPUs.
    pub(super) fn account(&mut self) {
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

    /// The table of a thread begins with its first entry or exit.
    pub(super) fn begin(&mut self) {
        let begun = self.asm.label();
        self.asm.load(Size::B8, R1, R7, thread::FIRST);
        self.asm.jump_if_imm(Ne, R1, 0, begun);
        self.set(thread::FIRST, R8);
        self.asm.place(begun);
    }
}
