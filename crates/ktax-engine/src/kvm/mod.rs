//! A guest under QEMU/KVM whose Workloads are timed, one after the other, in one fresh Boot.

mod answers;
pub mod argv;
mod bare_metal;
pub mod device;
mod guest;
mod open;
mod pin;

pub use guest::{Kvm, Setup};
pub use pin::allowed as allowed_cpus;

use super::entry::{EngineEntry, Measures};
use ktax_model::RunsOn;

/// Its place in the list of engines.
pub const ENGINE: EngineEntry = EngineEntry {
    name: "kvm",
    about: "Time guests under QEMU/KVM",
    runs_on: RunsOn::Guests,
    measures: Measures::Times { open: open::open },
};
