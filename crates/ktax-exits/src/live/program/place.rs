//! Places in the kernel's arrays: found by what they hold, from a first one onwards, or taken.
//!
//! The verifier turns a look-up in an array into a few instructions, one in a hash map into a call
//! of some hundred. A place is taken in a hash map, which says to one CPU alone that it was first.

use super::stack::{CLAIM, INDEX, TID};
use super::writer::{Maps, Places, Writer};
use crate::live::asm::Alu::{Add, And, Mov};
use crate::live::asm::Reg::{self, R0, R1, R2, R3, R4, R10};
use crate::live::asm::When::{Eq, Ne};
use crate::live::asm::{Helper, Label, Size};

/// Only if the key is not there.
const BPF_NOEXIST: i32 = 1;
/// It is there.
const EEXIST: i32 = 17;

/// Where a probe goes on.
pub struct Probe {
    /// It is free.
    pub free: Label,
    /// It is this thread's.
    pub same: Label,
    /// It is another's.
    pub next: Label,
}

impl Writer {
    /// `to` is the place with the number in R1 plus `probe`, and the program goes on where what it
    /// holds says.
    pub(super) fn probe(&mut self, places: Places, probe: i32, to: Reg, on: &Probe) {
        self.asm.alu_imm(Add, R1, probe);
        self.asm.alu_imm(And, R1, places.room as i32 - 1);
        self.asm.store(Size::B4, R10, INDEX, R1);
        self.look_up(places.map, INDEX);
        self.asm.jump_if_imm(Eq, R0, 0, on.next);
        self.asm.alu(Mov, to, R0);
        self.asm.load(Size::B8, R1, to, places.tid);
        self.asm.jump_if_imm(Eq, R1, 0, on.free);
        self.asm.load(Size::B4, R2, R10, TID);
        self.asm.jump_if(Eq, R1, R2, on.same);
        self.asm.jump(on.next);
    }

    /// Takes the place that was just looked at and writes the thread's id into it; `next` where
    /// another CPU was faster, `full` where the kernel has no room or no time.
    pub(super) fn take(&mut self, places: Places, place: Reg, next: Label, full: Label) {
        self.asm.load(Size::B4, R1, R10, INDEX);
        self.asm.store(Size::B4, R10, CLAIM, R1);
        self.asm.alu_imm(Mov, R1, places.kind);
        self.asm.store(Size::B4, R10, CLAIM + 4, R1);
        self.asm.map(R1, self.maps.taken);
        self.address(R2, CLAIM);
        self.address(R3, CLAIM);
        self.asm.alu_imm(Mov, R4, BPF_NOEXIST);
        self.asm.call(Helper::MapUpdate);
        self.asm.jump_if_imm(Eq, R0, -EEXIST, next);
        self.asm.jump_if_imm(Ne, R0, 0, full);
        self.asm.load(Size::B4, R1, R10, TID);
        self.asm.store(Size::B8, place, places.tid, R1);
    }

    /// An event found no room.
    pub(super) fn lose(&mut self) {
        let gone = self.asm.label();
        self.state(Maps::LOST, gone);
        self.add_to(R0, 0, 1);
        self.asm.place(gone);
    }

    /// Events count from when all programs run until the first no longer does: some of them without
    /// the others would book an exit as the guest's time.
    pub(super) fn only_while_on(&mut self, off: Label) {
        self.state(Maps::IS_ON, off);
        self.asm.load(Size::B8, R1, R0, 0);
        self.asm.jump_if_imm(Eq, R1, 0, off);
    }

    /// R0 is where this word is.
    fn state(&mut self, word: u32, gone: Label) {
        self.asm.set_u32(R1, word);
        self.asm.store(Size::B4, R10, INDEX, R1);
        self.look_up(self.maps.state, INDEX);
        self.asm.jump_if_imm(Eq, R0, 0, gone);
    }

    pub(super) fn address(&mut self, to: Reg, at: i16) {
        self.asm.alu(Mov, to, R10);
        self.asm.alu_imm(Add, to, i32::from(at));
    }

    pub(super) fn look_up(&mut self, map: i32, key: i16) {
        self.asm.map(R1, map);
        self.address(R2, key);
        self.asm.call(Helper::MapLookup);
    }
}
