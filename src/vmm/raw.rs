//! A guest without an operating system. It exits exactly as often as it is told to.

use std::sync::Arc;

use kvm_bindings::{KVM_MAX_CPUID_ENTRIES, kvm_regs};

use super::code::{self, Loops};
use super::error::{VmmError, refused};
use super::machine::{Machine, write};
use super::outcome::GuestOutcome;
use super::vcpu::{Bus, Next};
use super::{crew, long_mode};

/// Ends at the address without memory.
const MEMORY: usize = code::MMIO_ADDRESS as usize;
const CODE: u64 = 0x8000;

/// Runs the loops to their end.
///
/// # Errors
///
/// The guest does not start. How it ends is in the [`GuestOutcome`].
pub fn run(loops: &Loops) -> Result<GuestOutcome, VmmError> {
    run_code(&code::assemble(loops))
}

fn run_code(code: &[u8]) -> Result<GuestOutcome, VmmError> {
    let machine = Machine::new(MEMORY)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// How a guest with this code ends; `None` without KVM.
    fn ended(code: &[u8]) -> Option<VmmError> {
        match run_code(code) {
            Err(error) if error.is_without_kvm() => {
                println!("skipped: {error}");
                None
            }
            other => Some(other.unwrap().ended.unwrap_err()),
        }
    }

    #[test]
    fn a_triple_fault_is_said_with_its_place() {
        // nop; ud2, and there is no table of handlers
        if let Some(error) = ended(&[0x90, 0x0f, 0x0b]) {
            assert!(matches!(error, VmmError::Shutdown { vcpu: 0, .. }), "{error}");
        }
    }

    #[test]
    fn code_where_there_is_no_memory_is_an_error() {
        // mov eax, MMIO_ADDRESS; jmp rax
        if let Some(error) = ended(&[0xb8, 0, 0, 0x20, 0, 0xff, 0xe0]) {
            assert!(matches!(error, VmmError::GaveUp { vcpu: 0, .. }), "{error}");
        }
    }
}
