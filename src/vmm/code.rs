//! The machine code of the raw guest: one loop for each kind of exit, then its end.

/// The port that the loop writes to; nothing answers there.
pub(super) const LOOP_PORT: u16 = 0x1f4;
/// The guest ends itself by a write to this port.
pub(super) const END_PORT: u16 = 0x1f8;
/// A register of the PIC that KVM has in the kernel: its interrupt mask.
const PIC_MASK: u8 = 0x21;
/// The microcode's revision, IA32_BIOS_SIGN_ID: an MSR that no guest reads or writes without an
/// exit. KVM ignores what a guest writes to it.
const MSR: u32 = 0x8b;
/// From here on are the pages that the guest touches, each once.
const FRESH: u32 = 0x20_0000;
const PAGE: u32 = 0x1000;
/// An address without memory, in the gigabyte that the guest's page tables map.
const MMIO_ADDRESS: u32 = 0x3000_0000;

/// How many instructions of each kind the guest executes, in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loops {
    /// OUT: exits to user space.
    pub out: u32,
    /// A write to an address without memory: exits to user space.
    pub mmio: u32,
    /// CPUID: exits to KVM, which answers it.
    pub cpuid: u32,
    /// HLT: exits to user space, because there is no interrupt controller in the kernel.
    pub hlt: u32,
    /// RDMSR: exits to KVM, which answers it.
    pub rdmsr: u32,
    /// WRMSR: exits to KVM, which ignores the value.
    pub wrmsr: u32,
    /// The first write to a page of memory: exits to KVM, which finds a page for it.
    pub fault: u32,
    /// OUT to the interrupt controller in the kernel: exits to KVM, which carries it out.
    pub pic: u32,
}

impl Loops {
    /// Whether KVM has an interrupt controller in the kernel; a HLT then waits there.
    pub(super) fn has_controller(&self) -> bool {
        self.pic > 0
    }

    /// How many pages there can be to touch.
    pub const FAULTS_MAX: u32 = (MMIO_ADDRESS - FRESH) / PAGE;

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        FRESH as usize + PAGE as usize * self.fault as usize
    }
}

/// Position-independent code for 64-bit mode.
pub(super) fn assemble(loops: &Loops) -> Vec<u8> {
    let mut code = Vec::new();
    mov_dx(&mut code, LOOP_PORT);
    // out dx, al
    repeat(&mut code, loops.out, &[0xee]);
    // mov dword ptr [MMIO_ADDRESS], 1
    let [a, b, c, d] = MMIO_ADDRESS.to_le_bytes();
    repeat(&mut code, loops.mmio, &[0xc7, 0x04, 0x25, a, b, c, d, 1, 0, 0, 0]);
    // xor eax, eax; xor ecx, ecx; cpuid
    repeat(&mut code, loops.cpuid, &[0x31, 0xc0, 0x31, 0xc9, 0x0f, 0xa2]);
    // hlt
    repeat(&mut code, loops.hlt, &[0xf4]);
    let [a, b, c, d] = MSR.to_le_bytes();
    // mov ecx, MSR; then: rdmsr
    repeat_after(&mut code, &[0xb9, a, b, c, d], loops.rdmsr, &[0x0f, 0x32]);
    // mov ecx, MSR; xor eax, eax; xor edx, edx; then: wrmsr
    let zero = [0xb9, a, b, c, d, 0x31, 0xc0, 0x31, 0xd2];
    repeat_after(&mut code, &zero, loops.wrmsr, &[0x0f, 0x30]);
    // mov edi, FRESH; then: mov byte ptr [rdi], 1; add edi, PAGE
    let [[a, b, c, d], [e, f, g, h]] = [FRESH, PAGE].map(u32::to_le_bytes);
    let touch = [0xc6, 0x07, 1, 0x81, 0xc7, e, f, g, h];
    repeat_after(&mut code, &[0xbf, a, b, c, d], loops.fault, &touch);
    // mov al, 0xff; out PIC_MASK, al
    repeat(&mut code, loops.pic, &[0xb0, 0xff, 0xe6, PIC_MASK]);
    mov_dx(&mut code, END_PORT);
    // out dx, al; jmp to itself
    code.extend([0xee, 0xeb, 0xfe]);
    code
}

fn mov_dx(code: &mut Vec<u8>, port: u16) {
    code.extend([0x66, 0xba]);
    code.extend(port.to_le_bytes());
}

/// A loop, and what its body needs before.
fn repeat_after(code: &mut Vec<u8>, before: &[u8], times: u32, body: &[u8]) {
    if times > 0 {
        code.extend(before);
    }
    repeat(code, times, body);
}

/// `times` in R15, which no body touches.
fn repeat(code: &mut Vec<u8>, times: u32, body: &[u8]) {
    /// Of `dec r15` and `jnz rel8`.
    const TAIL: usize = 5;
    if times == 0 {
        return;
    }
    // mov r15d, times: the upper half becomes zero
    code.extend([0x41, 0xbf]);
    code.extend(times.to_le_bytes());
    code.extend(body);
    let back = i8::try_from(body.len() + TAIL).expect("a body is a few bytes").wrapping_neg();
    // dec r15; jnz body
    code.extend([0x49, 0xff, 0xcf, 0x75, back.to_le_bytes()[0]]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: [u8; 7] = [0x66, 0xba, 0xf8, 0x01, 0xee, 0xeb, 0xfe];

    #[test]
    fn nothing_to_do_is_the_end_at_once() {
        let code = assemble(&Loops::default());
        assert_eq!(code[..4], [0x66, 0xba, 0xf4, 0x01]);
        assert_eq!(code[4..], END);
    }

    #[test]
    fn a_loop_jumps_back_to_its_body() {
        let code = assemble(&Loops { hlt: 0x0102_0304, ..Loops::default() });
        let hlt = [0x41, 0xbf, 4, 3, 2, 1, 0xf4, 0x49, 0xff, 0xcf, 0x75, 0xfa];
        assert_eq!(code[4..16], hlt);
        assert_eq!(code[16..], END);
        // From the byte after the jump (16) to the body (10).
        assert_eq!(i8::from_le_bytes([0xfa]), 10 - 16);
    }

    #[test]
    fn the_loops_follow_one_another() {
        let one = |loops| assemble(&loops).len() - assemble(&Loops::default()).len();
        let (out, mmio) =
            (Loops { out: 1, ..Loops::default() }, Loops { mmio: 1, ..Loops::default() });
        assert_eq!((one(out), one(mmio)), (6 + 1 + 5, 6 + 11 + 5));
        let all = Loops { out: 1, mmio: 2, cpuid: 3, hlt: 4, rdmsr: 5, wrmsr: 6, fault: 7, pic: 8 };
        let all = assemble(&all);
        let places: Vec<usize> =
            (0..all.len() - 1).filter(|at| all[*at..].starts_with(&[0x41, 0xbf])).collect();
        let counts: Vec<u8> = places.iter().map(|at| all[at + 2]).collect();
        assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(all.ends_with(&END));
    }
}
