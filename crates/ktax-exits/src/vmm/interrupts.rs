//! The interrupts of the raw guest: each vCPU has its local APIC in x2APIC mode, one handler, and a
//! stack. A handler ends its interrupt and says in R14 that it ran.
//!
//! The monitor sets the APIC up, so that the guest leaves only for what it is told to do.

use kvm_bindings::{KVM_MP_STATE_RUNNABLE, kvm_mp_state};
use kvm_ioctls::VcpuFd;

use super::machine::{CODE_SELECTOR, Memory, write_memory};
use super::{VmmError, refused};

/// Below the guest's code, at 0x8000.
const IDT: u64 = 0x1000;
const HANDLER: u32 = 0x2000;
/// Address of the second vCPU's code.
pub(super) const SECOND_CODE: u64 = 0x3000;
/// Address of the first vCPU's stack; the second's is a page above.
const STACK: u64 = 0x5000;

const VECTOR: u8 = 0x40;
/// Present, an interrupt gate: the handler starts with interrupts off.
const GATE: u8 = 0x8e;

/// Flags of IA32_APIC_BASE: enabled, in x2APIC mode.
const X2APIC: u64 = 0xc00;
/// Registers of the APIC in its page, and their values: on, with the spurious vector 0xff; the
/// timer fires once, with our vector; it counts each cycle of the bus.
const REGISTERS: [(usize, u32); 3] = [(0xf0, 0x1ff), (0x320, VECTOR as u32), (0x3e0, 0xb)];

/// MSRs of the x2APIC: the end of an interrupt, the interrupt command, and the timer's count.
const EOI: u32 = 0x80b;
const ICR: u32 = 0x830;
const COUNT: u32 = 0x838;
/// Destination of an interrupt command: the sender itself.
const SELF: u32 = 0x4_0000;

/// Nanoseconds until the timer interrupts a guest that runs: more than it takes to enter the guest
/// again, and so little that few of the host's ticks come meanwhile.
const SOON_NS: u32 = 20_000;
/// Nanoseconds until the timer wakes a guest: above 200 µs, so that KVM does not poll for it.
const LATER_NS: u32 = 250_000;

const STI: u8 = 0xfb;
const CLI: u8 = 0xfa;
/// sti; hlt; cli: no interrupt comes between the first two.
const WAIT: [u8; 3] = [STI, 0xf4, CLI];
/// xor r14d, r14d
const FORGET: [u8; 3] = [0x45, 0x31, 0xf6];
/// test r14d, r14d; jz back to it
const SPIN: [u8; 5] = [0x45, 0x85, 0xf6, 0x74, 0xfb];

/// A loop, and what is done once before and after it. It may change all registers but R15.
#[derive(Default)]
pub(super) struct LoopCode {
    pub before: Vec<u8>,
    pub body: Vec<u8>,
    pub after: Vec<u8>,
}

/// Has the timer interrupt the guest, which spins until then.
pub(super) fn interrupt() -> LoopCode {
    spin_until_interrupt(wrmsr(COUNT, SOON_NS, 0))
}

/// Has the guest interrupt itself.
pub(super) fn self_ipi() -> LoopCode {
    spin_until_interrupt(wrmsr(ICR, SELF | u32::from(VECTOR), 0))
}

/// Has the timer wake the guest.
pub(super) fn wake() -> LoopCode {
    LoopCode { body: [&wrmsr(COUNT, LATER_NS, 0)[..], &WAIT].concat(), ..LoopCode::default() }
}

/// Interrupts the second vCPU, and waits for its answer.
pub(super) fn ipi() -> LoopCode {
    LoopCode { body: [&send_to(1)[..], &WAIT].concat(), ..LoopCode::default() }
}

fn spin_until_interrupt(request: Vec<u8>) -> LoopCode {
    let body = [&FORGET[..], &request, &SPIN].concat();
    LoopCode { before: vec![STI], body, after: vec![CLI] }
}

/// Code of the second vCPU: it answers each interrupt with one to the first.
fn second() -> Vec<u8> {
    let mut code = [&WAIT[..], &send_to(0)].concat();
    let back = i8::try_from(code.len() + 2).expect("a few bytes").wrapping_neg();
    // jmp rel8
    code.extend([0xeb, back.to_le_bytes()[0]]);
    code
}

fn send_to(vcpu: u32) -> Vec<u8> {
    wrmsr(ICR, VECTOR.into(), vcpu)
}

/// mov ecx, msr; mov eax, low; mov edx, high; wrmsr
pub(super) fn wrmsr(msr: u32, low: u32, high: u32) -> Vec<u8> {
    let [msr, low, high] = [msr, low, high].map(u32::to_le_bytes);
    [&[0xb9][..], &msr, &[0xb8], &low, &[0xba], &high, &[0x0f, 0x30]].concat()
}

/// Ends the interrupt; inc r14d; iretq. It uses the registers that a request uses.
fn handler() -> Vec<u8> {
    [&wrmsr(EOI, 0, 0)[..], &[0x41, 0xff, 0xc6, 0x48, 0xcf]].concat()
}

/// Writes the interrupt table, the handler, and the code of the second vCPU.
pub(super) fn write_code(memory: &Memory) -> Result<(), VmmError> {
    let [a, b, c, d] = HANDLER.to_le_bytes();
    let [e, f] = CODE_SELECTOR.to_le_bytes();
    let gate = [a, b, e, f, 0, GATE, c, d, 0, 0, 0, 0, 0, 0, 0, 0];
    write_memory(memory, "an interrupt's gate", &gate, IDT + 16 * u64::from(VECTOR))?;
    write_memory(memory, "an interrupt's handler", &handler(), HANDLER.into())?;
    write_memory(memory, "the second vCPU's code", &second(), SECOND_CODE)
}

/// Returns the address of a vCPU's stack.
pub(super) fn stack(vcpu: u8) -> u64 {
    STACK + 0x1000 * u64::from(vcpu)
}

/// Prepares a vCPU, which has its CPUID and runs at once, also if it is not the first.
pub(super) fn prepare(vcpu: &VcpuFd) -> Result<(), VmmError> {
    let mut system = vcpu.get_sregs().map_err(refused("read registers"))?;
    system.apic_base |= X2APIC;
    (system.idt.base, system.idt.limit) = (IDT, 16 * 256 - 1);
    vcpu.set_sregs(&system).map_err(refused("enable the local APIC"))?;
    let mut apic = vcpu.get_lapic().map_err(refused("read the local APIC"))?;
    for (register, value) in REGISTERS {
        for (to, from) in apic.regs[register..].iter_mut().zip(value.to_le_bytes()) {
            *to = i8::from_le_bytes([from]);
        }
    }
    vcpu.set_lapic(&apic).map_err(refused("set the local APIC"))?;
    let state = kvm_mp_state { mp_state: KVM_MP_STATE_RUNNABLE };
    vcpu.set_mp_state(state).map_err(refused("start a vCPU"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_go_where_they_should() {
        // From the byte after the jump to the test.
        assert_eq!(i8::from_le_bytes([SPIN[4]]), -5);
        let second = second();
        let back = i8::from_le_bytes([second[second.len() - 1]]);
        assert_eq!(second.len() as i8 + back, 0);
    }

    #[test]
    fn a_handler_leaves_the_registers_as_a_request_sets_them_or_after_it() {
        // QEMU's translator may run a handler twice: within the handler it changes nothing.
        let handler = handler();
        assert_eq!(handler[..17], wrmsr(EOI, 0, 0));
        assert!(handler.ends_with(&[0x48, 0xcf]));
    }

    #[test]
    fn an_interrupt_to_another_vcpu_has_its_number_in_the_upper_half() {
        let code = send_to(1);
        assert_eq!(code[5..10], [0xb8, VECTOR, 0, 0, 0]);
        assert_eq!(code[10..15], [0xba, 1, 0, 0, 0]);
        assert!(interrupt().before == [STI] && wake().before.is_empty());
    }
}
