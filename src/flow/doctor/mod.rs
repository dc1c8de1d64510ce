//! What this machine can and cannot do, and what fixes it.

mod cpus;
mod finding;
mod kvm;
mod look;
mod others;
mod settings;

pub use finding::Check;
pub use look::look;
pub use settings::restore;
