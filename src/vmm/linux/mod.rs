//! A Linux guest: a bzImage, interrupt controllers and timer in the kernel, one serial port, and
//! nothing else: no disk, no PCI. A kernel finds its processors by ACPI, or without it by the MP
//! table.

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
