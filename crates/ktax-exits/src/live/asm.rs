//! An assembler for eBPF: the few instructions that the programs need, with labels
//! (Documentation/bpf/standardization/instruction-set.rst).

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
pub enum When {
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

    /// The program's end: it returns 1, since 0 would take the event away from other users of the
    /// tracepoint (perf_trace_run_bpf_submit).
    pub fn exit(&mut self) {
        self.alu_imm(Alu::Mov, Reg::R0, 1);
        self.emit(EXIT, Reg::R0, 0, 0, 0);
    }

    /// A place that is not known yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label is here.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// Goes there.
    pub fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(JMP, Reg::R0, 0, 0, 0);
    }

    /// Goes there if `a when b`.
    pub fn jump_if(&mut self, when: When, a: Reg, b: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(JMP | FROM_REG | when as u8, a, b as u8, 0, 0);
    }

    /// Goes there if `a when imm`, which is sign-extended.
    pub fn jump_if_imm(&mut self, when: When, a: Reg, imm: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(JMP | when as u8, a, 0, 0, imm);
    }

    /// The finished program. Panics where a label was never placed: a mistake of the program's
    /// author, which any test of it finds.
    pub fn finish(mut self) -> Vec<u8> {
        for (at, label) in &self.jumps {
            let to = self.labels[label.0].expect("every label is placed");
            let distance = i16::try_from(to as i64 - *at as i64 - 1).expect("programs are short");
            self.code[*at][2..4].copy_from_slice(&distance.to_ne_bytes());
        }
        self.code.concat()
    }
}
