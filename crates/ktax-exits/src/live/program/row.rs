//! The row of what has ended.

use super::place::Probe;
use super::stack::{HASH, KEY_CODE, KEY_DETAIL, TID};
use super::writer::Writer;
use crate::live::asm::Alu::{Add, And, Lsh, Mov, Mul, Rsh, Sub};
use crate::live::asm::Reg::{R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};
use crate::live::asm::When::{Eq, Ge, Lt, Ne};
use crate::live::asm::{Label, Size};
use crate::live::words::{row, thread};
use crate::recording::{Reason, STAGES};
use ktax_stats::histogram::BUCKETS;

impl Writer {
    /// Books what had begun: the first of the two if it had, else the other, which lacks its end.
    pub(super) fn close(&mut self, [expected, other]: [i16; 2]) {
        let (a, b) = (self.asm.label(), self.asm.label());
        let (nothing, full) = (self.asm.label(), self.asm.label());
        self.asm.load(Size::B8, R9, R7, expected);
        self.asm.jump_if_imm(Ne, R9, 0, a);
        self.asm.load(Size::B8, R9, R7, other);
        self.asm.jump_if_imm(Eq, R9, 0, nothing);
        self.add_to(R7, thread::UNPAIRED, 1);
        self.key_of(other);
        self.asm.jump(b);
        self.asm.place(a);
        self.key_of(expected);
        self.asm.place(b);
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

    /// The key of what began at this word, beside the thread's id, and where to look for it.
    fn key_of(&mut self, began: i16) {
        if began == thread::ENTRY_AT {
            // Sign-extended, that is all ones.
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

    /// R6 is the row of the key, which may be new.
    fn find(&mut self, full: Label) {
        let there = self.asm.label();
        for probe in 0..self.maps.rows.probes {
            let (free, same, next) = (self.asm.label(), self.asm.label(), self.asm.label());
            self.asm.load(Size::B8, R1, R10, HASH);
            self.probe(self.maps.rows, probe, R6, &Probe { free, same, next });
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

    /// One more in R9's bucket, as `stats::histogram::bucket` has it.
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
