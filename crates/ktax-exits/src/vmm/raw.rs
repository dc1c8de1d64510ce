//! A guest without an operating system. It exits exactly as often as it is told to.

use std::sync::Arc;

use kvm_bindings::{KVM_MAX_CPUID_ENTRIES, kvm_regs};
use kvm_ioctls::VcpuFd;
use rustix::thread::disable_transparent_huge_pages;

use super::code;
use super::error::{VmmError, refused};
use super::interrupts;
use super::loops::Loops;
use super::machine::{Machine, write};
use super::outcome::GuestOutcome;
use super::vcpu::{Bus, Next};
use super::{crew, long_mode};
use ktax_model::RawKind;

const CODE: u64 = 0x8000;

/// Runs the loops to their end.
///
/// # Errors
///
/// The guest cannot do that, or does not start. How it ends is in the [`GuestOutcome`].
pub fn run(loops: &Loops) -> Result<GuestOutcome, VmmError> {
    loops.check()?;
    let bytes = code::memory(loops);
    if loops.times(RawKind::Fault) > 0 {
        // KVM then maps each page of 4 KiB by itself, also where the memory is aligned to 2 MiB.
        disable_transparent_huge_pages(true)
            .map_err(|error| VmmError::Memory { bytes, reason: error.to_string() })?;
    }
    run_in(&Machine::new(bytes)?, loops, &code::assemble(loops))
}

/// Runs machine code from its first byte on, in long mode.
///
/// # Errors
///
/// As of [`run`].
pub fn run_code(code: &[u8]) -> Result<GuestOutcome, VmmError> {
    let nothing = Loops::default();
    run_in(&Machine::new(code::memory(&nothing))?, &nothing, code)
}

fn run_in(machine: &Machine, loops: &Loops, code: &[u8]) -> Result<GuestOutcome, VmmError> {
    if loops.has_controllers() {
        machine.vm.create_irq_chip().map_err(refused("create the interrupt controllers"))?;
    }
    long_mode::write_tables(&machine.memory)?;
    write(&machine.memory, "the code", code, CODE)?;
    if loops.has_interrupts() {
        interrupts::write_code(&machine.memory)?;
    }
    let vcpus: Result<Vec<_>, _> = (0..loops.cpus()).map(|id| vcpu(machine, loops, id)).collect();
    crew::run(vcpus?, &Arc::new(Ports))
}

fn vcpu(machine: &Machine, loops: &Loops, id: u8) -> Result<VcpuFd, VmmError> {
    let vcpu = vcpu_at(machine, id, if id == 0 { CODE } else { interrupts::SECOND })?;
    if loops.has_interrupts() {
        interrupts::prepare(&vcpu)?;
    }
    Ok(vcpu)
}

/// One that begins there, in long mode, with a stack of its own.
pub(super) fn vcpu_at(machine: &Machine, id: u8, rip: u64) -> Result<VcpuFd, VmmError> {
    let vcpu = machine.vm.create_vcpu(id.into()).map_err(refused("create a vCPU"))?;
    let cpuid = machine.kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
    vcpu.set_cpuid2(&cpuid.map_err(refused("report its CPUID"))?).map_err(refused("set CPUID"))?;
    let rsp = interrupts::stack(id);
    long_mode::enter(&vcpu, kvm_regs { rip, rsp, ..kvm_regs::default() })?;
    Ok(vcpu)
}

/// The only port ends the guest.
pub(super) struct Ports;

impl Bus for Ports {
    fn read(&self, _: u16, data: &mut [u8]) {
        data.fill(0xff);
    }

    fn write(&self, port: u16, _: &[u8]) -> Result<Next, VmmError> {
        Ok(if port == code::END_PORT { Next::End } else { Next::GoOn })
    }

    fn may_shut_down(&self) -> bool {
        false
    }
}
