//! A small virtual machine monitor on `/dev/kvm`: guests of which it is known how often they leave
//! to user space. What a recorder of exits says is checked against its [`Account`].
//!
//! ```text
//! raw ────► code ───┐                        ┌─► vcpu (KVM_RUN, one thread each) ─► Account
//!                   ├─► machine, long_mode ──┤
//! linux ─► load ────┘                        └─► a Bus: what answers on ports
//! ```
//!
//! A guest is untrusted: whatever it does is answered, or ends it with a [`VmmError`].

mod account;
mod code;
mod crew;
mod error;
pub mod linux;
mod long_mode;
mod machine;
mod outcome;
pub mod raw;
mod stats;
mod vcpu;

pub use account::{Account, VcpuAccount};
pub use code::Loops;
pub use error::VmmError;
pub use outcome::{Ended, Outcome};
