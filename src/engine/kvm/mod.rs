//! A guest under QEMU/KVM whose Workloads are timed, one after the other, in one fresh Boot.

mod answers;
pub mod argv;
mod guest;
mod pin;

pub use guest::{Kvm, Setup};
pub use pin::allowed as allowed_cpus;
