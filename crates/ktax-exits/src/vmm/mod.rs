//! A small virtual machine monitor (VMM) on `/dev/kvm`. It counts how often its guests exit to user
//! space. The tests of `exits` compare recordings with this [`Account`].
//!
//! ```text
//! raw ────► code ───┐                        ┌─► vcpu (KVM_RUN, one thread each) ─► Account
//!                   ├─► machine, long_mode ──┤
//! linux ─► load ────┘                        └─► a Bus: what answers on ports
//! ```
//!
//! A guest is untrusted: whatever it does gets an answer, or ends it with a [`VmmError`].

mod account;
mod code;
mod crew;
mod error;
mod interrupts;
pub mod linux;
mod long_mode;
mod loops;
mod machine;
mod operation_code;
pub mod operations;
mod outcome;
pub mod raw;
mod stats;
mod vcpu;

pub use account::{Account, VcpuAccount};
pub use error::VmmError;
pub use loops::Loops;
pub use outcome::{GuestEnd, GuestOutcome};
