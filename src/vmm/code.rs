//! The machine code of the raw guest: one loop for each kind of exit, then its end.

/// The port that the loop writes to; nothing answers there.
pub(super) const LOOP_PORT: u16 = 0x1f4;
/// The guest ends itself by a write to this port.
pub(super) const END_PORT: u16 = 0x1f8;
/// An address without memory.
pub(super) const MMIO_ADDRESS: u32 = 0x20_0000;

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
    mov_dx(&mut code, END_PORT);
    // out dx, al; jmp to itself
    code.extend([0xee, 0xeb, 0xfe]);
    code
}

fn mov_dx(code: &mut Vec<u8>, port: u16) {
    code.extend([0x66, 0xba]);
    code.extend(port.to_le_bytes());
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
        let all = assemble(&Loops { out: 1, mmio: 2, cpuid: 3, hlt: 4 });
        let places: Vec<usize> =
            (0..all.len() - 1).filter(|at| all[*at..].starts_with(&[0x41, 0xbf])).collect();
        let counts: Vec<u8> = places.iter().map(|at| all[at + 2]).collect();
        assert_eq!(counts, [1, 2, 3, 4]);
        assert!(all.ends_with(&END));
    }
}
