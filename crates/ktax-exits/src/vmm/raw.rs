//! A guest without an operating system, which exits exactly as often as it is told to.
//!
//! For interrupts each vCPU has its local APIC in x2APIC mode, one handler, and a stack. A handler
//! ends its interrupt and sets R14. The monitor sets the APIC up, so that the guest exits only when
//! it is told to.

use std::sync::Arc;

use kvm_bindings::{KVM_MAX_CPUID_ENTRIES, KVM_MP_STATE_RUNNABLE, kvm_mp_state, kvm_regs};
use kvm_ioctls::VcpuFd;
use rustix::thread::disable_transparent_huge_pages;

use super::{
    Bus, CODE_SELECTOR, GuestOutcome, Machine, Memory, Next, enter_long_mode, no_memory, refused,
    run_vcpus, write_memory, write_page_tables,
};
use ktax_model::{Error, RawKind, Result};

const CODE: u64 = 0x8000;

/// Runs the loops to their end. The [`GuestOutcome`] has the guest's end; the error says why it
/// does not start.
pub fn run(loops: &Loops) -> Result<GuestOutcome> {
    loops.check()?;
    let bytes = memory_bytes(loops);
    if loops.times(RawKind::Fault) > 0 {
        // KVM then maps each page of 4 KiB by itself, even if the memory is aligned to 2 MiB.
        disable_transparent_huge_pages(true).map_err(|error| no_memory(bytes, error))?;
    }
    run_in(&Machine::new(bytes)?, loops, &assemble(loops))
}

/// Runs machine code from its first byte on, in long mode.
pub fn run_code(code: &[u8]) -> Result<GuestOutcome> {
    let nothing = Loops::default();
    run_in(&Machine::new(memory_bytes(&nothing))?, &nothing, code)
}

fn run_in(machine: &Machine, loops: &Loops, code: &[u8]) -> Result<GuestOutcome> {
    // With controllers in the kernel a HLT waits there.
    if loops.kinds().any(RawKind::needs_interrupt_controllers) {
        machine.vm.create_irq_chip().map_err(refused("create the interrupt controllers"))?;
    }
    write_page_tables(&machine.memory)?;
    write_memory(&machine.memory, "the code", code, CODE)?;
    if loops.has_interrupts() {
        write_interrupt_code(&machine.memory)?;
    }
    let mut vcpus = Vec::new();
    for id in 0..loops.cpus() {
        let vcpu = vcpu_at(machine, id, if id == 0 { CODE } else { SECOND_CODE })?;
        if loops.has_interrupts() {
            prepare_interrupts(&vcpu)?;
        }
        vcpus.push(vcpu);
    }
    run_vcpus(vcpus, &Arc::new(RawPorts))
}

/// Makes a vCPU that starts at `rip`, in long mode, with a stack of its own.
pub(super) fn vcpu_at(machine: &Machine, id: u8, rip: u64) -> Result<VcpuFd> {
    let vcpu = machine.vm.create_vcpu(id.into()).map_err(refused("create a vCPU"))?;
    let cpuid = machine.kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
    vcpu.set_cpuid2(&cpuid.map_err(refused("report its CPUID"))?).map_err(refused("set CPUID"))?;
    let rsp = STACK_ADDRESS + 0x1000 * u64::from(id);
    enter_long_mode(&vcpu, kvm_regs { rip, rsp, ..kvm_regs::default() })?;
    Ok(vcpu)
}

/// The ports of a raw guest: one of them ends it.
pub(super) struct RawPorts;

impl Bus for RawPorts {
    fn read(&self, _: u16, data: &mut [u8]) {
        data.fill(0xff);
    }

    fn write(&self, port: u16, _: &[u8]) -> Result<Next> {
        Ok(if port == END_PORT { Next::End } else { Next::GoOn })
    }

    fn may_shut_down(&self) -> bool {
        false
    }
}

/// Number of times that a guest does each kind, in the order of [`RawKind::ALL`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loops([u32; RawKind::ALL.len()]);

impl Loops {
    #[must_use]
    pub fn with(mut self, kind: RawKind, times: u32) -> Loops {
        self.0[kind as usize] = times;
        self
    }

    fn times(&self, kind: RawKind) -> u32 {
        self.0[kind as usize]
    }

    fn kinds(&self) -> impl Iterator<Item = RawKind> {
        RawKind::ALL.into_iter().filter(|kind| self.times(*kind) > 0)
    }

    fn has_interrupts(&self) -> bool {
        self.kinds().any(RawKind::is_interrupt)
    }

    fn cpus(&self) -> u8 {
        if self.times(RawKind::Ipi) > 0 { 2 } else { 1 }
    }

    /// Refuses what no guest can do: a number that is too large, and two kinds that need different
    /// machines.
    pub fn check(&self) -> Result<()> {
        if let Some(kind) =
            self.kinds().find(|kind| !kind.permitted_counts().contains(&self.times(*kind)))
        {
            let (name, times, most) =
                (kind.name(), self.times(kind), *kind.permitted_counts().end());
            let message = format!("--{name} cannot be {times}: the guest has no more memory");
            return Err(Error::user(message).next(format!("use at most --{name} {most}")));
        }
        let controllers = self.kinds().find(|kind| kind.needs_interrupt_controllers());
        match controllers.filter(|_| self.times(RawKind::Hlt) > 0).map(RawKind::name) {
            Some(name) => Err(Error::user(format!(
                "--{name} and --hlt exclude each other: --{name} needs interrupt controllers in \
                 the kernel, and with them no HLT gets to the monitor"
            ))
            .next(format!("remove --{name} or --hlt"))),
            None => Ok(()),
        }
    }
}

/// The port that the loop writes to; nothing answers there.
const LOOP_PORT: u16 = 0x1f4;
/// The guest ends itself by a write to this port.
pub(super) const END_PORT: u16 = 0x1f8;
/// A register of the PIC that KVM has in the kernel: its interrupt mask.
const PIC_MASK: u8 = 0x21;
/// The microcode's revision, IA32_BIOS_SIGN_ID: an MSR that no guest reads or writes without an
/// exit. KVM ignores what a guest writes to it.
const MSR: u32 = 0x8b;
/// Address of the first page that the guest touches; it touches each page once.
const FRESH: u32 = 0x20_0000;
const PAGE: u32 = 0x1000;
/// An address without memory, in the gigabyte that the guest's page tables map.
const MMIO_ADDRESS: u32 = 0x3000_0000;
const _: () = assert!(RawKind::MAX_FAULTS == (MMIO_ADDRESS - FRESH) / PAGE);

fn memory_bytes(loops: &Loops) -> usize {
    FRESH as usize + PAGE as usize * loops.times(RawKind::Fault) as usize
}

/// Assembles position-independent code for 64-bit mode.
fn assemble(loops: &Loops) -> Vec<u8> {
    let mut code = Vec::new();
    for kind in loops.kinds() {
        let LoopCode { before, body, after } = loop_code(kind);
        code.extend(before);
        repeat(&mut code, loops.times(kind), &body);
        code.extend(after);
    }
    code.extend(mov_dx(END_PORT));
    // out dx, al; jmp to itself
    code.extend([0xee, 0xeb, 0xfe]);
    code
}

fn loop_code(kind: RawKind) -> LoopCode {
    let [msr, address, fresh, page] = [MSR, MMIO_ADDRESS, FRESH, PAGE].map(u32::to_le_bytes);
    let (before, body) = match kind {
        // xor eax, eax; xor ecx, ecx; cpuid
        RawKind::Cpuid => (vec![], vec![0x31, 0xc0, 0x31, 0xc9, 0x0f, 0xa2]),
        // mov ecx, MSR; then: rdmsr
        RawKind::Rdmsr => ([&[0xb9][..], &msr].concat(), vec![0x0f, 0x32]),
        // mov ecx, MSR; xor eax, eax; xor edx, edx; then: wrmsr
        RawKind::Wrmsr => {
            ([&[0xb9][..], &msr, &[0x31, 0xc0, 0x31, 0xd2]].concat(), vec![0x0f, 0x30])
        }
        // mov edi, FRESH; then: mov byte ptr [rdi], 1; add edi, PAGE
        RawKind::Fault => {
            ([&[0xbf][..], &fresh].concat(), [&[0xc6, 0x07, 1, 0x81, 0xc7][..], &page].concat())
        }
        // mov al, 0xff; out PIC_MASK, al
        RawKind::Pic => (vec![], vec![0xb0, 0xff, 0xe6, PIC_MASK]),
        // The timer interrupts the guest, which spins until then.
        RawKind::Interrupt => return spin_until_interrupt(wrmsr(COUNT, SOON_NS, 0)),
        RawKind::SelfIpi => {
            return spin_until_interrupt(wrmsr(ICR, SELF | u32::from(VECTOR), 0));
        }
        RawKind::Wake => (vec![], [&wrmsr(COUNT, LATER_NS, 0)[..], &WAIT].concat()),
        // Interrupts the second vCPU, and waits for its answer.
        RawKind::Ipi => (vec![], [&send_to(1)[..], &WAIT].concat()),
        // out dx, al
        RawKind::Out => (mov_dx(LOOP_PORT).to_vec(), vec![0xee]),
        // mov dword ptr [MMIO_ADDRESS], 1
        RawKind::Mmio => (vec![], [&[0xc7, 0x04, 0x25][..], &address, &[1, 0, 0, 0]].concat()),
        // hlt
        RawKind::Hlt => (vec![], vec![0xf4]),
    };
    LoopCode { before, body, after: vec![] }
}

fn mov_dx(port: u16) -> [u8; 4] {
    let [low, high] = port.to_le_bytes();
    [0x66, 0xba, low, high]
}

/// Appends a loop. It counts in R15, which no body touches.
fn repeat(code: &mut Vec<u8>, times: u32, body: &[u8]) {
    /// Length of `dec r15` and `jnz rel8`.
    const TAIL: usize = 5;
    // mov r15d, times: the upper half becomes zero
    code.extend([0x41, 0xbf]);
    code.extend(times.to_le_bytes());
    code.extend(body);
    let back = i8::try_from(body.len() + TAIL).expect("a body is a few bytes").wrapping_neg();
    // dec r15; jnz body
    code.extend([0x49, 0xff, 0xcf, 0x75, back.to_le_bytes()[0]]);
}

/// Address of the interrupt table. All of these addresses are below the guest's code, at 0x8000.
const IDT: u64 = 0x1000;
const HANDLER_ADDRESS: u32 = 0x2000;
/// Address of the second vCPU's code.
const SECOND_CODE: u64 = 0x3000;
/// Address of the first vCPU's stack; the second's is a page above.
const STACK_ADDRESS: u64 = 0x5000;

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

/// A loop, with code that runs once before and after it. It may change all registers but R15.
struct LoopCode {
    before: Vec<u8>,
    body: Vec<u8>,
    after: Vec<u8>,
}

fn spin_until_interrupt(request: Vec<u8>) -> LoopCode {
    let body = [&FORGET[..], &request, &SPIN].concat();
    LoopCode { before: vec![STI], body, after: vec![CLI] }
}

/// Code of the second vCPU: it answers each interrupt with one to the first.
fn second_vcpu_code() -> Vec<u8> {
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
fn handler_code() -> Vec<u8> {
    [&wrmsr(EOI, 0, 0)[..], &[0x41, 0xff, 0xc6, 0x48, 0xcf]].concat()
}

/// Writes the interrupt table, the handler, and the code of the second vCPU.
fn write_interrupt_code(memory: &Memory) -> Result<()> {
    let [a, b, c, d] = HANDLER_ADDRESS.to_le_bytes();
    let [e, f] = CODE_SELECTOR.to_le_bytes();
    let gate = [a, b, e, f, 0, GATE, c, d, 0, 0, 0, 0, 0, 0, 0, 0];
    write_memory(memory, "an interrupt's gate", &gate, IDT + 16 * u64::from(VECTOR))?;
    write_memory(memory, "an interrupt's handler", &handler_code(), HANDLER_ADDRESS.into())?;
    write_memory(memory, "the second vCPU's code", &second_vcpu_code(), SECOND_CODE)
}

/// Prepares a vCPU, which has its CPUID and runs at once, even if it is not the first.
fn prepare_interrupts(vcpu: &VcpuFd) -> Result<()> {
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

    fn once(kinds: &[RawKind]) -> Loops {
        kinds.iter().fold(Loops::default(), |loops, kind| loops.with(*kind, 1))
    }

    #[test]
    fn each_kind_has_a_number_of_its_own() {
        let loops = (1..).zip(RawKind::ALL);
        let loops = loops.fold(Loops::default(), |loops, (times, kind)| loops.with(kind, times));
        assert_eq!(
            RawKind::ALL.map(|kind| loops.times(kind)),
            std::array::from_fn(|index| index as u32 + 1)
        );
    }

    #[test]
    fn hlt_gets_to_the_monitor_only_without_controllers_in_the_kernel() {
        for kind in RawKind::ALL {
            let checked = once(&[kind, RawKind::Hlt]).check();
            assert_eq!(checked.is_err(), kind.needs_interrupt_controllers(), "{kind:?}");
            if let Err(error) = checked {
                let next = format!("remove --{} or --hlt", kind.name());
                assert!(error.to_string().ends_with(&next), "{error}");
            }
        }
        let all_but_hlt = &RawKind::ALL[..RawKind::ALL.len() - 1];
        assert!(once(all_but_hlt).check().is_ok());
    }

    #[test]
    fn there_are_only_so_many_pages() {
        let check = |times| Loops::default().with(RawKind::Fault, times).check();
        assert!(check(RawKind::MAX_FAULTS).is_ok());
        let error = check(RawKind::MAX_FAULTS + 1).unwrap_err();
        assert!(error.to_string().ends_with("use at most --fault 196096"), "{error}");
    }

    const END: [u8; 7] = [0x66, 0xba, 0xf8, 0x01, 0xee, 0xeb, 0xfe];

    fn code_of_one(kind: RawKind, times: u32) -> Vec<u8> {
        assemble(&Loops::default().with(kind, times))
    }

    #[test]
    fn nothing_to_do_is_the_end_at_once() {
        assert_eq!(assemble(&Loops::default()), END);
    }

    #[test]
    fn a_loop_jumps_back_to_its_body() {
        let code = code_of_one(RawKind::Hlt, 0x0102_0304);
        let hlt = [0x41, 0xbf, 4, 3, 2, 1, 0xf4, 0x49, 0xff, 0xcf, 0x75, 0xfa];
        assert_eq!(code[..12], hlt);
        assert_eq!(code[12..], END);
        // From the byte after the jump (12) to the body (6).
        assert_eq!(i8::from_le_bytes([0xfa]), 6 - 12);
    }

    #[test]
    fn a_loop_has_what_it_needs_before() {
        let code = code_of_one(RawKind::Out, 1);
        assert_eq!(code[..4], [0x66, 0xba, 0xf4, 0x01]);
        assert_eq!(code.len() - END.len(), 4 + 6 + 1 + 5);
        assert_eq!(code_of_one(RawKind::Mmio, 1).len() - END.len(), 6 + 11 + 5);
    }

    #[test]
    fn the_loops_follow_one_another() {
        let all = (1..).zip(RawKind::ALL);
        let all = all.fold(Loops::default(), |loops, (times, kind)| loops.with(kind, times));
        let code = assemble(&all);
        let places = (0..code.len() - 1).filter(|start| code[*start..].starts_with(&[0x41, 0xbf]));
        let counts: Vec<u8> = places.map(|start| code[start + 2]).collect();
        assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert!(code.ends_with(&END));
    }

    #[test]
    fn jumps_go_where_they_should() {
        // From the byte after the jump to the test.
        assert_eq!(i8::from_le_bytes([SPIN[4]]), -5);
        let second = second_vcpu_code();
        let back = i8::from_le_bytes([second[second.len() - 1]]);
        assert_eq!(second.len() as i8 + back, 0);
    }

    #[test]
    fn a_handler_leaves_the_registers_as_a_request_sets_them_or_after_it() {
        // QEMU's translator may run a handler twice: within the handler it changes nothing.
        let handler = handler_code();
        assert_eq!(handler[..17], wrmsr(EOI, 0, 0));
        assert!(handler.ends_with(&[0x48, 0xcf]));
    }

    #[test]
    fn an_interrupt_to_another_vcpu_has_its_number_in_the_upper_half() {
        let code = send_to(1);
        assert_eq!(code[5..10], [0xb8, VECTOR, 0, 0, 0]);
        assert_eq!(code[10..15], [0xba, 1, 0, 0, 0]);
        let before = |kind| loop_code(kind).before;
        assert!(before(RawKind::Interrupt) == [STI] && before(RawKind::Wake).is_empty());
    }
}
