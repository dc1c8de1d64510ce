//! A guest without an operating system. It exits exactly as often as it is told to.

use std::sync::Arc;

use kvm_bindings::{KVM_MAX_CPUID_ENTRIES, kvm_regs};
use rustix::thread::disable_transparent_huge_pages;

use super::code::{self, Loops};
use super::error::{VmmError, refused};
use super::machine::{Machine, write};
use super::outcome::GuestOutcome;
use super::vcpu::{Bus, Next};
use super::{crew, long_mode};

const CODE: u64 = 0x8000;

/// Runs the loops to their end.
///
/// # Errors
///
/// The guest does not start. How it ends is in the [`GuestOutcome`].
pub fn run(loops: &Loops) -> Result<GuestOutcome, VmmError> {
    let bytes = loops.memory();
    if loops.fault > 0 {
        // KVM then maps each page of 4 KiB by itself, also where the memory is aligned to 2 MiB.
        disable_transparent_huge_pages(true)
            .map_err(|error| VmmError::Memory { bytes, reason: error.to_string() })?;
    }
    let machine = Machine::new(bytes)?;
    if loops.has_controller() {
        machine.vm.create_irq_chip().map_err(refused("create the interrupt controllers"))?;
    }
    run_in(&machine, &code::assemble(loops))
}

/// Runs machine code from its first byte on, in long mode.
///
/// # Errors
///
/// As of [`run`].
pub fn run_code(code: &[u8]) -> Result<GuestOutcome, VmmError> {
    run_in(&Machine::new(Loops::default().memory())?, code)
}

fn run_in(machine: &Machine, code: &[u8]) -> Result<GuestOutcome, VmmError> {
    long_mode::write_tables(&machine.memory)?;
    write(&machine.memory, "the code", code, CODE)?;
    let vcpu = machine.vm.create_vcpu(0).map_err(refused("create a vCPU"))?;
    let cpuid = machine.kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
    vcpu.set_cpuid2(&cpuid.map_err(refused("report its CPUID"))?).map_err(refused("set CPUID"))?;
    long_mode::enter(&vcpu, kvm_regs { rip: CODE, ..kvm_regs::default() })?;
    crew::run(vec![vcpu], &Arc::new(Ports))
}

/// The only port ends the guest.
struct Ports;

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
