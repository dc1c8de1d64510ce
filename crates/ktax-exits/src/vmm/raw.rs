//! A guest without an operating system. It exits exactly as often as it is told to.

use std::sync::Arc;

use kvm_bindings::{KVM_MAX_CPUID_ENTRIES, kvm_regs};
use kvm_ioctls::VcpuFd;
use rustix::thread::disable_transparent_huge_pages;

use super::interrupts::{self, LoopCode};
use super::machine::{Machine, enter_long_mode, write_memory, write_page_tables};
use super::vcpu::{Bus, Next, run_vcpus};
use super::{GuestOutcome, VmmError, refused};
use ktax_model::RawKind;

const CODE: u64 = 0x8000;

/// Runs the loops to their end. How the guest ends is in the [`GuestOutcome`]; the error says why
/// it does not start.
pub fn run(loops: &Loops) -> Result<GuestOutcome, VmmError> {
    loops.check()?;
    let bytes = memory_bytes(loops);
    if loops.times(RawKind::Fault) > 0 {
        // KVM then maps each page of 4 KiB by itself, also where the memory is aligned to 2 MiB.
        disable_transparent_huge_pages(true)
            .map_err(|error| VmmError::Memory { bytes, reason: error.to_string() })?;
    }
    run_in(&Machine::new(bytes)?, loops, &assemble(loops))
}

/// Runs machine code from its first byte on, in long mode.
pub fn run_code(code: &[u8]) -> Result<GuestOutcome, VmmError> {
    let nothing = Loops::default();
    run_in(&Machine::new(memory_bytes(&nothing))?, &nothing, code)
}

fn run_in(machine: &Machine, loops: &Loops, code: &[u8]) -> Result<GuestOutcome, VmmError> {
    if loops.has_controllers() {
        machine.vm.create_irq_chip().map_err(refused("create the interrupt controllers"))?;
    }
    write_page_tables(&machine.memory)?;
    write_memory(&machine.memory, "the code", code, CODE)?;
    if loops.has_interrupts() {
        interrupts::write_code(&machine.memory)?;
    }
    let vcpus: Result<Vec<_>, _> =
        (0..loops.cpus()).map(|id| create_vcpu(machine, loops, id)).collect();
    run_vcpus(vcpus?, &Arc::new(RawPorts))
}

fn create_vcpu(machine: &Machine, loops: &Loops, id: u8) -> Result<VcpuFd, VmmError> {
    let vcpu = vcpu_at(machine, id, if id == 0 { CODE } else { interrupts::SECOND_CODE })?;
    if loops.has_interrupts() {
        interrupts::prepare(&vcpu)?;
    }
    Ok(vcpu)
}

/// Makes a vCPU that starts at `rip`, in long mode, with a stack of its own.
pub(super) fn vcpu_at(machine: &Machine, id: u8, rip: u64) -> Result<VcpuFd, VmmError> {
    let vcpu = machine.vm.create_vcpu(id.into()).map_err(refused("create a vCPU"))?;
    let cpuid = machine.kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
    vcpu.set_cpuid2(&cpuid.map_err(refused("report its CPUID"))?).map_err(refused("set CPUID"))?;
    let rsp = interrupts::stack(id);
    enter_long_mode(&vcpu, kvm_regs { rip, rsp, ..kvm_regs::default() })?;
    Ok(vcpu)
}

/// The ports of a raw guest: one of them ends it.
pub(super) struct RawPorts;

impl Bus for RawPorts {
    fn read(&self, _: u16, data: &mut [u8]) {
        data.fill(0xff);
    }

    fn write(&self, port: u16, _: &[u8]) -> Result<Next, VmmError> {
        Ok(if port == END_PORT { Next::End } else { Next::GoOn })
    }

    fn may_shut_down(&self) -> bool {
        false
    }
}

/// How many times a guest does each kind, in the order of [`RawKind::ALL`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Loops([u32; RawKind::ALL.len()]);

impl Loops {
    /// Returns these loops with another number of one kind.
    #[must_use]
    pub fn with(mut self, kind: RawKind, times: u32) -> Loops {
        self.0[kind as usize] = times;
        self
    }

    /// Returns how many times the guest does one kind.
    pub(super) fn times(&self, kind: RawKind) -> u32 {
        self.0[kind as usize]
    }

    /// Returns the kinds that the guest does at least once.
    fn kinds(&self) -> impl Iterator<Item = RawKind> {
        RawKind::ALL.into_iter().filter(|kind| self.times(*kind) > 0)
    }

    /// Returns whether KVM has the interrupt controllers in the kernel; a HLT then waits there.
    fn has_controllers(&self) -> bool {
        self.kinds().any(RawKind::needs_controllers)
    }

    /// Returns whether the guest gets interrupts.
    fn has_interrupts(&self) -> bool {
        self.kinds().any(RawKind::is_interrupt)
    }

    /// Returns the number of vCPUs.
    pub(super) fn cpus(&self) -> u8 {
        if self.times(RawKind::Ipi) > 0 { 2 } else { 1 }
    }

    /// Refuses what no guest can do: a number that is too large, and two kinds that need different
    /// machines.
    pub fn check(&self) -> Result<(), VmmError> {
        if let Some(kind) = self.kinds().find(|kind| !kind.times().contains(&self.times(*kind))) {
            let (name, most) = (kind.name(), *kind.times().end());
            return Err(VmmError::TooMany { kind: name, times: self.times(kind), most });
        }
        let controllers = self.kinds().find(|kind| kind.needs_controllers());
        match controllers.filter(|_| self.times(RawKind::Hlt) > 0) {
            Some(kind) => Err(VmmError::Mixed { kind: kind.name() }),
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
const _: () = assert!(RawKind::FAULTS_MAX == (MMIO_ADDRESS - FRESH) / PAGE);

/// Returns how many bytes of memory the loops need.
fn memory_bytes(loops: &Loops) -> usize {
    FRESH as usize + PAGE as usize * loops.times(RawKind::Fault) as usize
}

/// Assembles position-independent code for 64-bit mode.
fn assemble(loops: &Loops) -> Vec<u8> {
    let mut code = Vec::new();
    for kind in RawKind::ALL.into_iter().filter(|kind| loops.times(*kind) > 0) {
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
        RawKind::Interrupt => return interrupts::interrupt(),
        RawKind::Wake => return interrupts::wake(),
        RawKind::SelfIpi => return interrupts::self_ipi(),
        RawKind::Ipi => return interrupts::ipi(),
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
            assert_eq!(checked.is_err(), kind.needs_controllers(), "{kind:?}");
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
        assert!(check(RawKind::FAULTS_MAX).is_ok());
        let error = check(RawKind::FAULTS_MAX + 1).unwrap_err();
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
}
