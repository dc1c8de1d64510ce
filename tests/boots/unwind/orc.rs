//! The kernel's own way to unwind a stack: the tables ORC of Linux 6.1, which objtool makes from
//! the machine code. See Documentation/arch/x86/orc-unwinder.rst and arch/x86/kernel/unwind_orc.c.

use object::{Object, ObjectSection};

/// What one instruction of a function has.
#[derive(Debug, Clone, Copy)]
struct Entry {
    sp_offset: i64,
    bp_offset: i64,
    sp_reg: u8,
    bp_reg: u8,
    kind: u8,
    /// Nothing called it: a new task begins there.
    is_end: bool,
}

const PREV_SP: u8 = 1;
const DX: u8 = 2;
const DI: u8 = 3;
const BP: u8 = 4;
const SP: u8 = 5;
const R10: u8 = 6;
const R13: u8 = 7;
const BP_INDIRECT: u8 = 8;
const SP_INDIRECT: u8 = 9;

/// A frame that a call made. Others have the registers of what was interrupted.
const CALL: u8 = 0;

/// Bytes of an entry.
const SIZE: usize = 6;

pub struct Orc {
    /// Each with the address from which on it holds.
    entries: Vec<(u64, Entry)>,
}

/// A vCPU in the kernel.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub ip: u64,
    pub sp: u64,
    pub bp: u64,
    pub dx: u64,
    pub di: u64,
    pub r10: u64,
    pub r13: u64,
    /// From the stack pointer on.
    pub stack: Vec<u64>,
}

impl State {
    fn word(&self, address: u64) -> Option<u64> {
        let at = address.checked_sub(self.sp)? / 8;
        self.stack.get(usize::try_from(at).ok()?).copied()
    }
}

/// Where a return address lies on the stack, and which it is.
pub type Frame = (u64, u64);

impl Orc {
    pub fn of(vmlinux: &[u8]) -> Orc {
        let file = object::File::parse(vmlinux).unwrap();
        let section = |name: &str| {
            let section = file.section_by_name(name).unwrap();
            (section.address(), section.data().unwrap())
        };
        let (base, ips) = section(".orc_unwind_ip");
        let (_, entries) = section(".orc_unwind");
        let address = |(at, ip): (usize, &[u8])| {
            let distance = i64::from(i32::from_le_bytes(ip.try_into().unwrap()));
            (base + 4 * at as u64).wrapping_add_signed(distance)
        };
        let entry = |bytes: &[u8]| {
            let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            Entry {
                sp_offset: i64::from(word(0) as i16),
                bp_offset: i64::from(word(2) as i16),
                sp_reg: (word(4) & 15) as u8,
                bp_reg: (word(4) >> 4 & 15) as u8,
                kind: (word(4) >> 8 & 3) as u8,
                is_end: word(4) >> 10 & 1 == 1,
            }
        };
        let ips = ips.chunks_exact(4).enumerate().map(address);
        Orc { entries: ips.zip(entries.chunks_exact(SIZE).map(entry)).collect() }
    }

    /// The table's entry for an instruction.
    fn entry(&self, ip: u64) -> Option<Entry> {
        let after = self.entries.partition_point(|(from, _)| *from <= ip);
        Some(self.entries[after.checked_sub(1)?].1)
    }

    /// The frames of the calls, the last one first; `None` where the tables do not lead to the
    /// entry of the kernel.
    pub fn unwind(&self, from: &State) -> Option<Vec<Frame>> {
        let (mut ip, mut sp, mut bp) = (from.ip, from.sp, from.bp);
        let mut frames = Vec::new();
        loop {
            // What returns goes on behind its call, which may be the last one of a function.
            let entry = self.entry(ip - u64::from(!frames.is_empty()))?;
            if entry.is_end {
                return Some(frames);
            }
            let at = |base: u64| base.wrapping_add_signed(entry.sp_offset);
            let previous = match entry.sp_reg {
                SP => at(sp),
                BP => at(bp),
                SP_INDIRECT => at(from.word(sp)?),
                BP_INDIRECT => from.word(at(bp))?,
                DX if frames.is_empty() => from.dx,
                DI if frames.is_empty() => from.di,
                R10 if frames.is_empty() => from.r10,
                R13 if frames.is_empty() => from.r13,
                _ => return None,
            };
            // A call on the stack of interrupts: the plugin has another stack for what called.
            let is_other_stack = entry.sp_reg == SP_INDIRECT && from.word(previous).is_none();
            if entry.kind != CALL || is_other_stack {
                return Some(frames);
            }
            let place = previous - 8;
            bp = match entry.bp_reg {
                PREV_SP => from.word(previous.wrapping_add_signed(entry.bp_offset))?,
                BP => from.word(bp.wrapping_add_signed(entry.bp_offset))?,
                _ => bp,
            };
            (ip, sp) = (from.word(place)?, previous);
            frames.push((place, ip));
        }
    }
}
