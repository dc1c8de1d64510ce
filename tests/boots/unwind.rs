//! At instructions that are drawn at random the plugin's stack of calls is what the kernel's own
//! tables say of registers and memory.

use std::fs;

use ktax::analyse::plain;
use ktax::engine::argv::CallPaths;
use object::{Object, ObjectSection};

use crate::common::require::newer_qemu;
use crate::common::{Need, require, scratch};
use crate::exact::{engine, order, request};

/// System calls, page faults, new tasks, sockets, signals and files.
const ROWS: [&str; 6] = [
    "fork-exec:ops=20",
    "page-fault:ops=500",
    "signal-handle:ops=500",
    "tcp:ops=100",
    "create-delete:bytes=4096,ops=50",
    "select-tcp:ops=100",
];

const WANTED: usize = 1000;

/// Registers and stack that the plugin wrote at an instruction.
#[derive(Default)]
struct Draw {
    state: State,
    /// Addresses of return addresses, and the functions that return there, the last one first.
    frames: Vec<(u64, String)>,
}

fn draws(text: &str) -> Vec<Draw> {
    let hex = |word: &str| u64::from_str_radix(word, 16).unwrap();
    let mut draws: Vec<Draw> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[0] {
            "draw" => {
                let [ip, sp, bp, dx, di, r10, r13] =
                    fields[1..].iter().map(|word| hex(word)).collect::<Vec<_>>()[..]
                else {
                    panic!("{line}")
                };
                let state = State { ip, sp, bp, dx, di, r10, r13, stack: Vec::new() };
                draws.push(Draw { state, frames: Vec::new() });
            }
            "frame" => {
                let frame = (hex(fields[1]), fields[2].to_owned());
                draws.last_mut().unwrap().frames.push(frame);
            }
            _ => {
                let words = fields[1..].iter().map(|word| hex(word)).collect();
                draws.last_mut().unwrap().state.stack = words;
            }
        }
    }
    draws
}

/// The function that holds an address.
fn function(symbols: &[(u64, String)], address: u64) -> &str {
    let after = symbols.partition_point(|(from, _)| *from <= address);
    symbols.get(after.wrapping_sub(1)).map_or("", |(_, name)| name)
}

/// How the plugin's stack is another one than the kernel's.
fn difference(draw: &Draw, orc: &Orc, symbols: &[(u64, String)]) -> Option<String> {
    let here = function(symbols, draw.state.ip);
    let Some(unwound) = orc.unwind(&draw.state) else {
        return Some(format!("in {here}: the tables end, {:x?}", draw.frames));
    };
    let places: Vec<u64> = unwound.iter().map(|(place, _)| *place).collect();
    // While it saves registers, the tables describe these and not its own frame.
    let is_own = |(_, name): &&(u64, String)| name != "error_entry";
    let frames: Vec<u64> = draw.frames.iter().filter(is_own).map(|(place, _)| *place).collect();
    // Each returns into the function of the next.
    let callers = unwound.iter().map(|(_, to)| plain(function(symbols, to - 1)));
    let is_caller = |(to, (_, name_of_frame)): (&str, &(u64, String))| to == plain(name_of_frame);
    let is_same = places == frames && callers.zip(&draw.frames[1..]).all(is_caller);
    let named: Vec<&str> = unwound.iter().map(|(_, to)| function(symbols, to - 1)).collect();
    (!is_same).then(|| format!("in {here}: {:x?}, the kernel: {places:x?} {named:?}", draw.frames))
}

#[test]
fn the_stack_of_calls_is_what_the_kernel_itself_unwinds() {
    let Some(qemu) = newer_qemu() else { return };
    let request = request();
    let vmlinux = vmlinux(&fs::read(&request.image).unwrap());
    let why = "this kernel's image is not compressed by LZ4";
    if !require(Need::Versions, vmlinux.is_some(), why) {
        return;
    }
    let orc = Orc::parse(&vmlinux.unwrap());

    let dir = scratch();
    let engine = engine(Some(&qemu));
    let mut drawn_frames = Vec::new();
    for (number, row) in ROWS.into_iter().enumerate() {
        let file = dir.path().join(number.to_string());
        let boot = engine.boot_with_paths(&request, CallPaths::Sampled(file.clone())).unwrap();
        boot.run(&order(row, &request)).unwrap();
        drawn_frames.extend(draws(&fs::read_to_string(file).unwrap()));
    }
    let symbols = fs::read_to_string(engine.functions_file(&request)).unwrap();
    let symbol = |line: &str| {
        let (address, name) = line.split_once(' ').unwrap();
        (u64::from_str_radix(address, 16).unwrap(), name.to_owned())
    };
    let symbols: Vec<(u64, String)> = symbols.lines().map(symbol).collect();
    let differences: Vec<String> =
        drawn_frames.iter().filter_map(|draw| difference(draw, &orc, &symbols)).collect();
    assert!(drawn_frames.len() >= WANTED, "{}", drawn_frames.len());
    // A frame that is lost, and one of another function.
    let deep = drawn_frames.iter_mut().find(|draw| draw.frames.len() > 8).unwrap();
    assert_eq!(difference(deep, &orc, &symbols), None);
    let lost = deep.frames.remove(4);
    assert!(difference(deep, &orc, &symbols).is_some());
    deep.frames.insert(4, (lost.0, "another".to_owned()));
    assert!(difference(deep, &orc, &symbols).is_some());
    let (drawn, differ) = (drawn_frames.len(), differences.len());
    assert!(differ * 1000 <= drawn, "{differ} of {drawn}:\n{}", differences.join("\n"));
}

// The kernel's own way to unwind a stack: the tables ORC of Linux 6.1, which objtool makes from the
// machine code. See Documentation/arch/x86/orc-unwinder.rst and arch/x86/kernel/unwind_orc.c.

/// ORC entry of an instruction.
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
        let word = address.checked_sub(self.sp)? / 8;
        self.stack.get(usize::try_from(word).ok()?).copied()
    }
}

/// Address of a return address on the stack, and its value.
pub type Frame = (u64, u64);

impl Orc {
    pub fn parse(vmlinux: &[u8]) -> Orc {
        let file = object::File::parse(vmlinux).unwrap();
        let section = |name: &str| {
            let section = file.section_by_name(name).unwrap();
            (section.address(), section.data().unwrap())
        };
        let (base, ips) = section(".orc_unwind_ip");
        let (_, entries) = section(".orc_unwind");
        let address = |(index, ip): (usize, &[u8])| {
            let distance = i64::from(i32::from_le_bytes(ip.try_into().unwrap()));
            (base + 4 * index as u64).wrapping_add_signed(distance)
        };
        let entry = |bytes: &[u8]| {
            let word = |index: usize| u16::from_le_bytes([bytes[index], bytes[index + 1]]);
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
            // A return address is after its call, which may be the last instruction of a function.
            let entry = self.entry(ip - u64::from(!frames.is_empty()))?;
            if entry.is_end {
                return Some(frames);
            }
            let address = |base: u64| base.wrapping_add_signed(entry.sp_offset);
            let previous = match entry.sp_reg {
                SP => address(sp),
                BP => address(bp),
                SP_INDIRECT => address(from.word(sp)?),
                BP_INDIRECT => from.word(address(bp))?,
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

// The ELF file within an image that was compressed by LZ4, as Debian's are.

/// Offsets of the boot protocol's header.
const SETUP_SECTORS: usize = 0x1f1;
const PAYLOAD: usize = 0x248;
const SECTOR: usize = 512;

const MAGIC: u32 = 0x184c_2102;

fn u32_at(data: &[u8], offset: usize) -> usize {
    u32::from_le_bytes(data[offset..offset + 4].try_into().unwrap()) as usize
}

/// `None` of an image that was compressed in another way.
pub fn vmlinux(image: &[u8]) -> Option<Vec<u8>> {
    let start = (usize::from(image[SETUP_SECTORS]) + 1) * SECTOR + u32_at(image, PAYLOAD);
    let payload = &image[start..start + u32_at(image, PAYLOAD + 4)];
    if u32_at(payload, 0) != MAGIC as usize {
        return None;
    }
    let (mut offset, mut out) = (4, Vec::new());
    while offset + 4 <= payload.len() {
        let size = u32_at(payload, offset);
        offset += 4;
        // Behind the last block is the size of all.
        let Some(block) = payload.get(offset..offset + size) else { break };
        unpack(block, &mut out);
        offset += size;
    }
    Some(out)
}

/// A length that goes on in more bytes if it is as large as four bits can be.
fn length(block: &[u8], offset: &mut usize, bits: u8) -> usize {
    let mut length = usize::from(bits);
    let mut is_more = bits == 15;
    while is_more {
        length += usize::from(block[*offset]);
        is_more = block[*offset] == 255;
        *offset += 1;
    }
    length
}

/// Blocks do not refer to others.
fn unpack(block: &[u8], out: &mut Vec<u8>) {
    let mut offset = 0;
    while offset < block.len() {
        let token = block[offset];
        offset += 1;
        let literals = length(block, &mut offset, token >> 4);
        out.extend(&block[offset..offset + literals]);
        offset += literals;
        if offset == block.len() {
            return;
        }
        let back = usize::from(block[offset]) | usize::from(block[offset + 1]) << 8;
        offset += 2;
        let copied = length(block, &mut offset, token & 15) + 4;
        for from in out.len() - back..out.len() - back + copied {
            out.push(out[from]);
        }
    }
}
