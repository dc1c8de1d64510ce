//! A Linux guest: a bzImage, KVM's interrupt controllers and timer, one serial port. It has no disk
//! and no PCI. The kernel finds its processors by ACPI, or by the MP table if it has no ACPI.

mod acpi;
mod addresses;
mod config;
mod cpuid;
mod guest;
mod load;
mod mptable;
mod ports;

pub use config::{CPUS_MAX, Config, MEMORY_MIB};
pub use cpuid::Feature;
pub use guest::run;
