//! The machine of a Linux guest, and its run.

use std::sync::Arc;

use kvm_bindings::{
    KVM_MAX_CPUID_ENTRIES, KVM_PIT_SPEAKER_DUMMY, Msrs, kvm_msr_entry, kvm_pit_config, kvm_regs,
};
use kvm_ioctls::VcpuFd;
use vmm_sys_util::eventfd::EventFd;

use super::config::Config;
use super::{acpi, cpuid, load, mptable, ports};
use crate::vmm::error::{VmmError, refused};
use crate::vmm::machine::Machine;
use crate::vmm::outcome::GuestOutcome;
use crate::vmm::{crew, long_mode};

/// Three pages that Intel processors need, at an address without memory.
const TSS: usize = 0xfffb_d000;
/// The interrupt of the first serial port.
const SERIAL_IRQ: u32 = 4;
/// The default memory type: range registers are on, and memory without one is write-back.
const MTRR_DEFAULT: kvm_msr_entry = kvm_msr_entry { index: 0x2ff, reserved: 0, data: 1 << 11 | 6 };

/// Boots the guest and runs it until it resets.
///
/// # Errors
///
/// The guest does not start. How it ends is in the [`GuestOutcome`].
pub fn run(config: &Config) -> Result<GuestOutcome, VmmError> {
    let kernel = load::read(config)?;
    let bytes = usize::try_from(config.memory_mib << 20)
        .map_err(|error| VmmError::Memory { bytes: usize::MAX, reason: error.to_string() })?;
    let machine = Machine::new(bytes)?;
    let vm = &machine.vm;
    vm.set_tss_address(TSS).map_err(refused("place a task state segment"))?;
    vm.create_irq_chip().map_err(refused("create interrupt controllers"))?;
    let pit = kvm_pit_config { flags: KVM_PIT_SPEAKER_DUMMY, ..kvm_pit_config::default() };
    vm.create_pit2(pit).map_err(refused("create a timer"))?;
    let entry = load::load(config, &kernel, &machine.memory)?;
    long_mode::write_tables(&machine.memory)?;
    acpi::write_tables(&machine.memory, config.cpus)?;
    mptable::write_table(&machine.memory, config.cpus)?;
    let interrupt = EventFd::new(0).map_err(refused("create an event"))?;
    vm.register_irqfd(&interrupt, SERIAL_IRQ)
        .map_err(refused("connect the serial port's interrupt"))?;
    let vcpus: Result<Vec<_>, _> = (0..config.cpus).map(|id| vcpu(&machine, config, id)).collect();
    let vcpus = vcpus?;
    // The other vCPUs wait for a start-up interrupt from the first.
    if let Some(first) = vcpus.first() {
        let (rip, rsi) = (entry.address, entry.zero_page);
        long_mode::enter(first, kvm_regs { rip, rsi, ..kvm_regs::default() })?;
    }
    let ports = Arc::new(ports::Ports::new(interrupt, config.stops_at_marks));
    let mut outcome = crew::run(vcpus, &ports)?;
    if let (Err(error), true) = (ports.flush(), outcome.ended.is_ok()) {
        outcome.ended = Err(error);
    }
    Ok(outcome)
}

fn vcpu(machine: &Machine, config: &Config, id: u8) -> Result<VcpuFd, VmmError> {
    let vcpu = machine.vm.create_vcpu(id.into()).map_err(refused("create a vCPU"))?;
    let cpuid = machine.kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES);
    let mut cpuid = cpuid.map_err(refused("report its CPUID"))?;
    let without = [&config.without, cpuid::unusable()].concat();
    cpuid::describe(cpuid.as_mut_slice(), id, &without);
    vcpu.set_cpuid2(&cpuid).map_err(refused("set CPUID"))?;
    let msrs = Msrs::from_entries(&[MTRR_DEFAULT]);
    let msrs = msrs.map_err(|_| VmmError::OutOfMemory { what: "registers" })?;
    vcpu.set_msrs(&msrs).map_err(refused("set memory types"))?;
    Ok(vcpu)
}
