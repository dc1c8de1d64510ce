//! Raw guests: machine code without an operating system, which exits an exact number of times.
//!
//! For interrupts each vCPU has its local APIC in x2APIC mode, an interrupt handler, and a stack.
//! The handler ends the interrupt and increments R14. The monitor sets up the APIC, so that the
//! guest needs no exits for it.

use std::sync::Arc;

use kvm_bindings::{KVM_MAX_CPUID_ENTRIES, KVM_MP_STATE_RUNNABLE, kvm_mp_state, kvm_regs};
use kvm_ioctls::VcpuFd;
use rustix::thread::disable_transparent_huge_pages;

use super::{
    Bus, CODE_SELECTOR, ExitAction, GuestOutcome, Machine, Memory, enter_long_mode, kvm_error,
    no_memory, run_vcpus, write_memory, write_page_tables,
};
use ktax_model::{Error, RawKind, Result};

const CODE: u64 = 0x8000;

/// Runs a guest that executes the loops. An error of `run` itself is about starting the guest; the
/// [`GuestOutcome`] has the error of a guest that ran.
pub fn run(loops: &RawLoops) -> Result<GuestOutcome> {
    loops.check()?;
    let bytes = memory_bytes(loops);
    if loops.times(RawKind::Fault) > 0 {
        // Without huge pages KVM maps each page of 4 KiB at a fault of its own.
        disable_transparent_huge_pages(true).map_err(|error| no_memory(bytes, error))?;
    }
    run_in(&Machine::new(bytes)?, loops, &assemble(loops))
}

/// Runs machine code in long mode, from its first byte.
pub fn run_code(code: &[u8]) -> Result<GuestOutcome> {
    let no_loops = RawLoops::default();
    run_in(&Machine::new(memory_bytes(&no_loops))?, &no_loops, code)
}

fn run_in(machine: &Machine, loops: &RawLoops, code: &[u8]) -> Result<GuestOutcome> {
    // Only if necessary: with interrupt controllers in the kernel, HLT waits there and does not
    // exit to the monitor.
    if loops.kinds().any(RawKind::needs_interrupt_controllers) {
        machine.vm.create_irq_chip().map_err(kvm_error("create the interrupt controllers"))?;
    }
    write_page_tables(&machine.memory)?;
    write_memory(&machine.memory, "the code", code, CODE)?;
    if loops.has_interrupts() {
        write_interrupt_code(&machine.memory)?;
    }
    let mut vcpus = Vec::new();
    for id in 0..loops.cpus() {
        let vcpu = create_vcpu_at(machine, id, if id == 0 { CODE } else { SECOND_CODE })?;
        if loops.has_interrupts() {
            prepare_interrupts(&vcpu)?;
        }
        vcpus.push(vcpu);
    }
    run_vcpus(vcpus, &Arc::new(RawPorts))
}

/// Makes a vCPU that starts at `rip`, in long mode, with a stack of its own.
pub(super) fn create_vcpu_at(machine: &Machine, id: u8, rip: u64) -> Result<VcpuFd> {
    let vcpu = machine.vm.create_vcpu(id.into()).map_err(kvm_error("create a vCPU"))?;
    let cpuid = machine.kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
    vcpu.set_cpuid2(&cpuid.map_err(kvm_error("report its CPUID"))?)
        .map_err(kvm_error("set CPUID"))?;
    let rsp = STACK_ADDRESS + 0x1000 * u64::from(id);
    enter_long_mode(&vcpu, kvm_regs { rip, rsp, ..kvm_regs::default() })?;
    Ok(vcpu)
}

/// The ports of a raw guest: a write to [`END_PORT`] ends the guest, other ports have no device.
pub(super) struct RawPorts;

impl Bus for RawPorts {
    fn read(&self, _: u16, data: &mut [u8]) {
        data.fill(0xff);
    }

    fn write(&self, port: u16, _: &[u8]) -> Result<ExitAction> {
        Ok(if port == END_PORT { ExitAction::EndGuest } else { ExitAction::Continue })
    }

    fn may_triple_fault(&self) -> bool {
        false
    }
}

/// Number of iterations of each kind of loop, in the order of [`RawKind::ALL`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RawLoops([u32; RawKind::ALL.len()]);

impl RawLoops {
    /// Sets the number of iterations of a kind.
    #[must_use]
    pub fn with_count(mut self, kind: RawKind, times: u32) -> RawLoops {
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

    /// Refuses loops that no guest can execute: too many iterations, and kinds that need different
    /// machines.
    pub fn check(&self) -> Result<()> {
        if let Some(kind) =
            self.kinds().find(|kind| !kind.permitted_counts().contains(&self.times(*kind)))
        {
            let (name, times, maximum) =
                (kind.name(), self.times(kind), *kind.permitted_counts().end());
            let message = format!("--{name} cannot be {times}: the guest has no more memory");
            return Err(Error::user(message).next(format!("use at most --{name} {maximum}")));
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

/// Port of the loop of OUT instructions, without a device.
const LOOP_PORT: u16 = 0x1f4;
/// Port to which a guest writes to end itself.
pub(super) const END_PORT: u16 = 0x1f8;
/// Port of the interrupt mask of the PIC, which KVM emulates in the kernel.
const PIC_MASK: u8 = 0x21;
/// IA32_BIOS_SIGN_ID, the revision of the microcode: each access of a guest is an exit, and KVM
/// ignores writes.
const EXITING_MSR: u32 = 0x8b;
/// Address of the first page of the loop of page faults, which touches each page once.
const FIRST_FAULT_PAGE: u32 = 0x20_0000;
const PAGE: u32 = 0x1000;
/// An address that the guest's page tables map, but without memory.
const MMIO_ADDRESS: u32 = 0x3000_0000;
const _: () = assert!(RawKind::MAX_FAULTS == (MMIO_ADDRESS - FIRST_FAULT_PAGE) / PAGE);

fn memory_bytes(loops: &RawLoops) -> usize {
    FIRST_FAULT_PAGE as usize + PAGE as usize * loops.times(RawKind::Fault) as usize
}

/// Assembles all loops and the end of the guest, as position-independent 64-bit code.
fn assemble(loops: &RawLoops) -> Vec<u8> {
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

/// Returns the code of one kind of loop.
fn loop_code(kind: RawKind) -> LoopCode {
    let [msr, address, fresh, page] =
        [EXITING_MSR, MMIO_ADDRESS, FIRST_FAULT_PAGE, PAGE].map(u32::to_le_bytes);
    let (before, body) = match kind {
        // xor eax, eax; xor ecx, ecx; cpuid
        RawKind::Cpuid => (vec![], vec![0x31, 0xc0, 0x31, 0xc9, 0x0f, 0xa2]),
        // mov ecx, EXITING_MSR; then: rdmsr
        RawKind::Rdmsr => ([&[0xb9][..], &msr].concat(), vec![0x0f, 0x32]),
        // mov ecx, EXITING_MSR; xor eax, eax; xor edx, edx; then: wrmsr
        RawKind::Wrmsr => {
            ([&[0xb9][..], &msr, &[0x31, 0xc0, 0x31, 0xd2]].concat(), vec![0x0f, 0x30])
        }
        // mov edi, FIRST_FAULT_PAGE; then: mov byte ptr [rdi], 1; add edi, PAGE
        RawKind::Fault => {
            ([&[0xbf][..], &fresh].concat(), [&[0xc6, 0x07, 1, 0x81, 0xc7][..], &page].concat())
        }
        // mov al, 0xff; out PIC_MASK, al
        RawKind::Pic => (vec![], vec![0xb0, 0xff, 0xe6, PIC_MASK]),
        // The timer interrupts the spinning guest.
        RawKind::Interrupt => {
            return spin_until_interrupt(wrmsr(TIMER_INITIAL_COUNT, INTERRUPT_NS, 0));
        }
        RawKind::SelfIpi => {
            return spin_until_interrupt(wrmsr(ICR, SELF_SHORTHAND | u32::from(VECTOR), 0));
        }
        RawKind::Wake => (vec![], [&wrmsr(TIMER_INITIAL_COUNT, WAKE_NS, 0)[..], &WAIT].concat()),
        // Interrupts the second vCPU, and waits for an interrupt from there.
        RawKind::Ipi => (vec![], [&send_interrupt(1)[..], &WAIT].concat()),
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

/// Appends a loop that counts down in R15, which no body uses.
fn repeat(code: &mut Vec<u8>, times: u32, body: &[u8]) {
    /// Length of `dec r15` and `jnz rel8`.
    const TAIL: usize = 5;
    // mov r15d, times: the upper half becomes zero
    code.extend([0x41, 0xbf]);
    code.extend(times.to_le_bytes());
    code.extend(body);
    let back =
        i8::try_from(body.len() + TAIL).expect("a loop is shorter than 128 bytes").wrapping_neg();
    // dec r15; jnz body
    code.extend([0x49, 0xff, 0xcf, 0x75, back.to_le_bytes()[0]]);
}

// Addresses below the first vCPU's code, which is at 0x8000.

/// Address of the interrupt descriptor table.
const IDT: u64 = 0x1000;
const HANDLER_ADDRESS: u32 = 0x2000;
/// Address of the second vCPU's code.
const SECOND_CODE: u64 = 0x3000;
/// Address of the first vCPU's stack; the second vCPU's stack is a page higher.
const STACK_ADDRESS: u64 = 0x5000;

/// Vector of all interrupts of the guest.
const VECTOR: u8 = 0x40;
/// Type of the handler's gate: present, an interrupt gate, which disables interrupts.
const GATE: u8 = 0x8e;

/// Flags EN and EXTD of IA32_APIC_BASE: enabled, in x2APIC mode.
const X2APIC: u64 = 0xc00;
/// Offsets and values of local APIC registers. SVR: enabled, with the spurious vector 0xff. LVT
/// timer: one-shot, with [`VECTOR`]. Divide configuration: the timer counts each cycle of the bus.
const APIC_REGISTERS: [(usize, u32); 3] = [(0xf0, 0x1ff), (0x320, VECTOR as u32), (0x3e0, 0xb)];

// MSRs of the x2APIC: end of interrupt, interrupt command, and the timer's initial count.

const EOI: u32 = 0x80b;
const ICR: u32 = 0x830;
const TIMER_INITIAL_COUNT: u32 = 0x838;
/// Destination shorthand of an interrupt command: the sender itself.
const SELF_SHORTHAND: u32 = 0x4_0000;

/// Timer of an interrupt to a running guest, ns: longer than an entry into the guest takes, and so
/// short that few ticks of the host fall into it.
const INTERRUPT_NS: u32 = 20_000;
/// Timer that wakes a halted guest, ns: longer than 200 µs, so that KVM stops polling and sleeps.
const WAKE_NS: u32 = 250_000;

const STI: u8 = 0xfb;
const CLI: u8 = 0xfa;
/// sti; hlt; cli: the processor delivers no interrupt between the first two.
const WAIT: [u8; 3] = [STI, 0xf4, CLI];
/// xor r14d, r14d: no interrupt yet
const CLEAR_FLAG: [u8; 3] = [0x45, 0x31, 0xf6];
/// test r14d, r14d; jz back to the test
const SPIN: [u8; 5] = [0x45, 0x85, 0xf6, 0x74, 0xfb];

/// Body of a loop, with code that runs once before and after the loop. All of it may change any
/// register but R15.
struct LoopCode {
    before: Vec<u8>,
    body: Vec<u8>,
    after: Vec<u8>,
}

/// Returns a loop that requests an interrupt and spins until it is handled.
fn spin_until_interrupt(request: Vec<u8>) -> LoopCode {
    let body = [&CLEAR_FLAG[..], &request, &SPIN].concat();
    LoopCode { before: vec![STI], body, after: vec![CLI] }
}

/// Returns the code of the second vCPU, which answers each interrupt with an interrupt to the
/// first.
fn second_vcpu_code() -> Vec<u8> {
    let mut code = [&WAIT[..], &send_interrupt(0)].concat();
    let back =
        i8::try_from(code.len() + 2).expect("the code is shorter than 128 bytes").wrapping_neg();
    // jmp rel8
    code.extend([0xeb, back.to_le_bytes()[0]]);
    code
}

/// Returns code that sends an interrupt to a vCPU.
fn send_interrupt(vcpu: u32) -> Vec<u8> {
    wrmsr(ICR, VECTOR.into(), vcpu)
}

/// Returns `mov ecx, msr; mov eax, low; mov edx, high; wrmsr`.
pub(super) fn wrmsr(msr: u32, low: u32, high: u32) -> Vec<u8> {
    let [msr, low, high] = [msr, low, high].map(u32::to_le_bytes);
    [&[0xb9][..], &msr, &[0xb8], &low, &[0xba], &high, &[0x0f, 0x30]].concat()
}

/// Returns the handler: end of interrupt, `inc r14d`, `iretq`. It changes only registers that the
/// code of a request sets anew.
fn handler_code() -> Vec<u8> {
    [&wrmsr(EOI, 0, 0)[..], &[0x41, 0xff, 0xc6, 0x48, 0xcf]].concat()
}

/// Writes the interrupt's gate, the handler, and the code of the second vCPU.
fn write_interrupt_code(memory: &Memory) -> Result<()> {
    let [a, b, c, d] = HANDLER_ADDRESS.to_le_bytes();
    let [e, f] = CODE_SELECTOR.to_le_bytes();
    let gate = [a, b, e, f, 0, GATE, c, d, 0, 0, 0, 0, 0, 0, 0, 0];
    write_memory(memory, "an interrupt's gate", &gate, IDT + 16 * u64::from(VECTOR))?;
    write_memory(memory, "an interrupt's handler", &handler_code(), HANDLER_ADDRESS.into())?;
    write_memory(memory, "the second vCPU's code", &second_vcpu_code(), SECOND_CODE)
}

/// Sets up a vCPU, which must have its CPUID, for interrupts. Makes it runnable even if it is not
/// the first.
fn prepare_interrupts(vcpu: &VcpuFd) -> Result<()> {
    let mut system = vcpu.get_sregs().map_err(kvm_error("read registers"))?;
    system.apic_base |= X2APIC;
    (system.idt.base, system.idt.limit) = (IDT, 16 * 256 - 1);
    vcpu.set_sregs(&system).map_err(kvm_error("enable the local APIC"))?;
    let mut apic = vcpu.get_lapic().map_err(kvm_error("read the local APIC"))?;
    for (register, value) in APIC_REGISTERS {
        for (to, from) in apic.regs[register..].iter_mut().zip(value.to_le_bytes()) {
            *to = i8::from_le_bytes([from]);
        }
    }
    vcpu.set_lapic(&apic).map_err(kvm_error("set the local APIC"))?;
    let state = kvm_mp_state { mp_state: KVM_MP_STATE_RUNNABLE };
    vcpu.set_mp_state(state).map_err(kvm_error("start a vCPU"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes one iteration of each kind.
    fn one_of_each(kinds: &[RawKind]) -> RawLoops {
        kinds.iter().fold(RawLoops::default(), |loops, kind| loops.with_count(*kind, 1))
    }

    #[test]
    fn each_kind_has_its_own_count() {
        let loops = (1..).zip(RawKind::ALL);
        let loops =
            loops.fold(RawLoops::default(), |loops, (times, kind)| loops.with_count(kind, times));
        assert_eq!(
            RawKind::ALL.map(|kind| loops.times(kind)),
            std::array::from_fn(|index| index as u32 + 1)
        );
    }

    #[test]
    fn hlt_excludes_kinds_that_need_interrupt_controllers() {
        for kind in RawKind::ALL {
            let checked = one_of_each(&[kind, RawKind::Hlt]).check();
            assert_eq!(checked.is_err(), kind.needs_interrupt_controllers(), "{kind:?}");
            if let Err(error) = checked {
                let next = format!("remove --{} or --hlt", kind.name());
                assert!(error.to_string().ends_with(&next), "{error}");
            }
        }
        let all_but_hlt = &RawKind::ALL[..RawKind::ALL.len() - 1];
        assert!(one_of_each(all_but_hlt).check().is_ok());
    }

    #[test]
    fn page_faults_are_limited_by_the_guests_memory() {
        let check = |times| RawLoops::default().with_count(RawKind::Fault, times).check();
        assert!(check(RawKind::MAX_FAULTS).is_ok());
        let error = check(RawKind::MAX_FAULTS + 1).unwrap_err();
        assert!(error.to_string().ends_with("use at most --fault 196096"), "{error}");
    }

    const END: [u8; 7] = [0x66, 0xba, 0xf8, 0x01, 0xee, 0xeb, 0xfe];

    fn assemble_one(kind: RawKind, times: u32) -> Vec<u8> {
        assemble(&RawLoops::default().with_count(kind, times))
    }

    #[test]
    fn without_loops_the_guest_ends_at_once() {
        assert_eq!(assemble(&RawLoops::default()), END);
    }

    #[test]
    fn a_loop_jumps_back_to_its_body() {
        let code = assemble_one(RawKind::Hlt, 0x0102_0304);
        let hlt = [0x41, 0xbf, 4, 3, 2, 1, 0xf4, 0x49, 0xff, 0xcf, 0x75, 0xfa];
        assert_eq!(code[..12], hlt);
        assert_eq!(code[12..], END);
        // The distance counts from the byte after the jump (12) to the body (6).
        assert_eq!(i8::from_le_bytes([0xfa]), 6 - 12);
    }

    #[test]
    fn registers_are_set_before_a_loop() {
        let code = assemble_one(RawKind::Out, 1);
        assert_eq!(code[..4], [0x66, 0xba, 0xf4, 0x01]);
        assert_eq!(code.len() - END.len(), 4 + 6 + 1 + 5);
        assert_eq!(assemble_one(RawKind::Mmio, 1).len() - END.len(), 6 + 11 + 5);
    }

    #[test]
    fn loops_are_assembled_in_sequence() {
        let all = (1..).zip(RawKind::ALL);
        let all =
            all.fold(RawLoops::default(), |loops, (times, kind)| loops.with_count(kind, times));
        let code = assemble(&all);
        let starts = (0..code.len() - 1).filter(|start| code[*start..].starts_with(&[0x41, 0xbf]));
        let counts: Vec<u8> = starts.map(|start| code[start + 2]).collect();
        assert_eq!(counts, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert!(code.ends_with(&END));
    }

    #[test]
    fn jumps_reach_their_targets() {
        // The distance counts from the byte after the jump.
        assert_eq!(i8::from_le_bytes([SPIN[4]]), -5);
        let second = second_vcpu_code();
        let back = i8::from_le_bytes([second[second.len() - 1]]);
        assert_eq!(second.len() as i8 + back, 0);
    }

    #[test]
    fn a_handler_changes_only_registers_that_requests_set() {
        // QEMU's translator may deliver an interrupt twice, even within the handler.
        let handler = handler_code();
        assert_eq!(handler[..17], wrmsr(EOI, 0, 0));
        assert!(handler.ends_with(&[0x48, 0xcf]));
    }

    #[test]
    fn an_interrupt_command_has_the_destination_in_its_upper_half() {
        let code = send_interrupt(1);
        assert_eq!(code[5..10], [0xb8, VECTOR, 0, 0, 0]);
        assert_eq!(code[10..15], [0xba, 1, 0, 0, 0]);
        let before = |kind| loop_code(kind).before;
        assert!(before(RawKind::Interrupt) == [STI] && before(RawKind::Wake).is_empty());
    }
}
