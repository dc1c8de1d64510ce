//! A guest without an operating system, that leaves exactly as often as it is told to.

use std::sync::Arc;

use kvm_bindings::{KVM_MAX_CPUID_ENTRIES, kvm_regs};

use super::code::{self, Loops};
use super::error::{VmmError, refused};
use super::machine::{Machine, write};
use super::vcpu::{Bus, Next};
use super::{Outcome, crew, long_mode};

/// Ends where the address without memory begins.
const MEMORY: usize = code::MMIO_ADDRESS as usize;
const CODE: u64 = 0x8000;

/// Runs the loops to their end.
///
/// # Errors
/// Where the guest does not begin; how it ends is in the [`Outcome`].
pub fn run(loops: &Loops) -> Result<Outcome, VmmError> {
    let machine = Machine::new(MEMORY)?;
    long_mode::write_tables(&machine.memory)?;
    write(&machine.memory, "the code", &code::assemble(loops), CODE)?;
    let vcpu = machine.vm.create_vcpu(0).map_err(refused("a vCPU"))?;
    let cpuid = machine.kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
    vcpu.set_cpuid2(&cpuid.map_err(refused("to say its CPUID"))?).map_err(refused("CPUID"))?;
    long_mode::enter(&vcpu, kvm_regs { rip: CODE, ..kvm_regs::default() })?;
    crew::run(vec![vcpu], &Arc::new(Ports))
}

/// Nothing but the end.
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
