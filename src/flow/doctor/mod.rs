//! What this machine can and cannot do, and what fixes it.

mod cpus;
mod finding;
mod kvm;
mod look;
mod newer_qemu;
mod others;
mod settings;

pub use finding::Check;
pub use look::look;
pub use newer_qemu::newer_qemu;
pub use settings::restore;
