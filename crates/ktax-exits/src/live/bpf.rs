//! eBPF: the system call with its maps and programs, and an assembler.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: u32 = 0;
const MAP_LOOKUP_ELEM: u32 = 1;
const MAP_UPDATE_ELEM: u32 = 2;
const MAP_GET_NEXT_KEY: u32 = 4;
const PROG_LOAD: u32 = 5;
const OBJ_GET_INFO_BY_FD: u32 = 15;
const RAW_TRACEPOINT_OPEN: u32 = 17;
const ENABLE_STATS: u32 = 32;

const STATS_RUN_TIME: u32 = 0;

/// The kinds of maps.
#[derive(Debug, Clone, Copy)]
pub enum MapKind {
    Hash = 1,
    Array = 2,
}

/// The kinds of programs.
#[derive(Debug, Clone, Copy)]
pub enum ProgramKind {
    /// A tracepoint, as a perf event: it gets the record.
    Tracepoint = 5,
    /// A tracepoint itself: no record is made.
    RawTracepoint = 17,
}

/// A map in the kernel.
#[derive(Debug)]
pub struct Map {
    pub fd: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
}

/// A program in the kernel.
#[derive(Debug)]
pub struct Program(pub OwnedFd);

/// Runs of a program, as the kernel counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunTime {
    pub ns: u64,
    pub runs: u64,
    /// Events at which it could not run, because another program ran on that CPU.
    pub missed: u64,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
}

#[repr(C)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    value_or_next: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    kind: u32,
    instructions: u32,
    code: u64,
    licence: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
}

#[repr(C)]
struct RawTracepointOpen {
    name: u64,
    program: u32,
    padding: u32,
}

#[repr(C)]
struct Info {
    fd: u32,
    bytes: u32,
    info: u64,
}

/// The head of `struct bpf_prog_info`, as far as it is looked at.
const INFO_WORDS: usize = 27;
const RUN_TIME_NS: usize = 24;

/// Issues one command. The address of everything that `attr` points to must be valid.
fn bpf<T>(command: u32, attr: &mut T) -> io::Result<i32> {
    // SAFETY: attr is a whole structure of the command's layout, the kernel takes what is beyond
    // its size as zero, and reads and writes at most size_of::<T>() bytes of it; what it points to
    // is held by the callers in this file for the whole call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, attr as *mut T, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

fn owned(fd: i32) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor, with close-on-exec, and nobody else has it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn number(fd: &OwnedFd) -> u32 {
    fd.as_raw_fd() as u32
}

impl Map {
    /// Creates a map with room for so many entries.
    pub fn new(kind: MapKind, key_bytes: usize, value_bytes: usize, room: u32) -> io::Result<Map> {
        let mut attr = MapCreate {
            kind: kind as u32,
            key_size: key_bytes as u32,
            value_size: value_bytes as u32,
            max_entries: room,
            flags: 0,
        };
        Ok(Map { fd: owned(bpf(MAP_CREATE, &mut attr)?), key_bytes, value_bytes })
    }

    /// Returns all entries.
    pub fn entries(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut entries = Vec::new();
        let mut last: Option<Vec<u8>> = None;
        while let Some(key) = self.key_after(last.as_deref())? {
            if let Some(value) = self.value(&key)? {
                entries.push((key.clone(), value));
            }
            last = Some(key);
        }
        Ok(entries)
    }

    fn key_after(&self, key: Option<&[u8]>) -> io::Result<Option<Vec<u8>>> {
        let mut next = vec![0u8; self.key_bytes];
        let key = key.map_or(0, |key| key.as_ptr() as u64);
        found(self.element(MAP_GET_NEXT_KEY, key, &mut next).map(|()| next))
    }

    /// Returns the value of a key of the right size.
    pub fn value(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        assert_eq!(key.len(), self.key_bytes);
        let mut value = vec![0u8; self.value_bytes];
        found(self.element(MAP_LOOKUP_ELEM, key.as_ptr() as u64, &mut value).map(|()| value))
    }

    /// Sets the value of a key, each of the right size.
    pub fn set(&self, key: &[u8], value: &mut [u8]) -> io::Result<()> {
        assert_eq!((key.len(), value.len()), (self.key_bytes, self.value_bytes));
        self.element(MAP_UPDATE_ELEM, key.as_ptr() as u64, value)
    }

    fn element(&self, command: u32, key: u64, value: &mut [u8]) -> io::Result<()> {
        let value_or_next = value.as_mut_ptr() as u64;
        let map = number(&self.fd);
        bpf(command, &mut Element { map, padding: 0, key, value_or_next, flags: 0 }).map(drop)
    }
}

fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

impl Program {
    /// Loads a program. The kernel checks it; what it finds wrong is in the error.
    pub fn load(kind: ProgramKind, code: &[u8]) -> io::Result<Program> {
        const LICENCE: &CStr = c"GPL";
        let attr = |log: &mut [u8]| ProgLoad {
            kind: kind as u32,
            instructions: (code.len() / 8) as u32,
            code: code.as_ptr() as u64,
            licence: LICENCE.as_ptr() as u64,
            log_level: u32::from(!log.is_empty()),
            log_size: log.len() as u32,
            log: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        };
        let error = match bpf(PROG_LOAD, &mut attr(&mut [])) {
            Ok(fd) => return Ok(Program(owned(fd))),
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => return Err(error),
            Err(error) => error,
        };
        let mut log = vec![0u8; 1 << 20];
        drop(bpf(PROG_LOAD, &mut attr(&mut log)));
        let messages = String::from_utf8_lossy(&log);
        let messages = messages.trim_end_matches('\0').trim_end();
        let last: Vec<&str> = messages.lines().rev().take(8).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        Err(io::Error::new(error.kind(), format!("{error}: {}", last.join(" | "))))
    }

    /// Runs it at a tracepoint for as long as the descriptor is held.
    pub fn attach_raw(&self, tracepoint: &CStr) -> io::Result<OwnedFd> {
        let (name, program) = (tracepoint.as_ptr() as u64, number(&self.0));
        bpf(RAW_TRACEPOINT_OPEN, &mut RawTracepointOpen { name, program, padding: 0 }).map(owned)
    }

    /// Returns what the kernel has counted since [`count_run_times`].
    pub fn run_time(&self) -> io::Result<RunTime> {
        let mut words = [0u64; INFO_WORDS];
        let bytes = size_of_val(&words) as u32;
        let info = words.as_mut_ptr() as u64;
        bpf(OBJ_GET_INFO_BY_FD, &mut Info { fd: number(&self.0), bytes, info })?;
        let [ns, runs, missed] = [0, 1, 2].map(|word| words[RUN_TIME_NS + word]);
        Ok(RunTime { ns, runs, missed })
    }
}

/// Has the kernel count how long programs run, for as long as the descriptor is held.
pub fn count_run_times() -> io::Result<OwnedFd> {
    bpf(ENABLE_STATS, &mut STATS_RUN_TIME.clone()).map(owned)
}

/// Returns the number by which a program refers to a map.
pub fn reference(map: &Map) -> i32 {
    map.fd.as_fd().as_raw_fd()
}

/// A register; R10 is the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reg {
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

/// How much a load or a store moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    B1 = 0x10,
    B2 = 0x08,
    B4 = 0x00,
    B8 = 0x18,
}

/// 64-bit arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    And = 0x50,
    Lsh = 0x60,
    Rsh = 0x70,
    Mov = 0xb0,
    Arsh = 0xc0,
}

/// Unsigned 64-bit comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    Eq = 0x10,
    Ge = 0x30,
    Ne = 0x50,
    Lt = 0xa0,
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

/// A place to jump to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(usize);

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

/// A program that is being written.
#[derive(Debug, Default)]
pub struct Assembler {
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
    pub fn alu(&mut self, op: Alu, dst: Reg, src: Reg) {
        self.emit(ALU64 | FROM_REG | op as u8, dst, src as u8, 0, 0);
    }

    /// `dst = dst op imm`.
    pub fn alu_imm(&mut self, op: Alu, dst: Reg, imm: i32) {
        self.emit(ALU64 | op as u8, dst, 0, 0, imm);
    }

    /// `dst = src`, its upper half cleared.
    pub fn low_half(&mut self, dst: Reg, src: Reg) {
        self.emit(ALU32 | FROM_REG | Alu::Mov as u8, dst, src as u8, 0, 0);
    }

    /// `dst = imm`, its upper half cleared.
    pub fn set_u32(&mut self, dst: Reg, imm: u32) {
        self.emit(ALU32 | Alu::Mov as u8, dst, 0, 0, imm as i32);
    }

    /// `dst = *(base + offset)`.
    pub fn load(&mut self, size: Size, dst: Reg, base: Reg, offset: i16) {
        self.emit(LOAD | size as u8, dst, base as u8, offset, 0);
    }

    /// `*(base + offset) = src`.
    pub fn store(&mut self, size: Size, base: Reg, offset: i16, src: Reg) {
        self.emit(STORE | size as u8, base, src as u8, offset, 0);
    }

    /// `dst = map`, which the kernel makes a pointer of.
    pub fn map(&mut self, dst: Reg, fd: i32) {
        self.emit(LOAD_IMM64, dst, PSEUDO_MAP_FD, 0, fd);
        self.emit(0, Reg::R0, 0, 0, 0);
    }

    /// Calls the kernel; R1 to R5 are gone, R0 is what it returns.
    pub fn call(&mut self, helper: Helper) {
        self.emit(CALL, Reg::R0, 0, 0, helper as i32);
    }

    /// Ends the program with 1, since 0 would take the event away from other users of the
    /// tracepoint (perf_trace_run_bpf_submit).
    pub fn exit(&mut self) {
        self.alu_imm(Alu::Mov, Reg::R0, 1);
        self.emit(EXIT, Reg::R0, 0, 0, 0);
    }

    /// Makes a label whose place is not known yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label here.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// Jumps to a label.
    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(JMP, Reg::R0, 0, 0, 0);
    }

    /// Jumps if `a condition b`.
    pub fn jump_if(&mut self, condition: Condition, a: Reg, b: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(JMP | FROM_REG | condition as u8, a, b as u8, 0, 0);
    }

    /// Jumps if `a condition imm`, which is sign-extended.
    pub fn jump_if_imm(&mut self, condition: Condition, a: Reg, imm: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(JMP | condition as u8, a, 0, 0, imm);
    }

    /// Returns the finished program. Panics where a label was never placed: a mistake of the
    /// program's author, which any test of it finds.
    pub fn finish(mut self) -> Vec<u8> {
        for (index, label) in &self.jumps {
            let to = self.labels[label.0].expect("every label is placed");
            let distance =
                i16::try_from(to as i64 - *index as i64 - 1).expect("programs are short");
            self.code[*index][2..4].copy_from_slice(&distance.to_ne_bytes());
        }
        self.code.concat()
    }
}
