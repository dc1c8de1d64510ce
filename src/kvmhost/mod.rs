//! A KVM host inside QEMU: real KVM where this machine has none, on a kernel that is not this
//! machine's. QEMU's translator emulates AMD's virtualization, nested paging included.
//!
//! ```text
//! ktax kvm-host ─► initramfs: ktax itself, its libraries, modules, files, the order
//!                     │ QEMU boots it; ktax is its first process
//!                     ▼
//!                  init: mounts, loads modules, runs the commands ─► frame: what they said
//! ```

mod argv;
pub mod board;
mod error;
mod frame;
mod given;
pub mod guests;
mod host;
pub mod init;
mod initramfs;
mod own;

pub use error::HostError;
pub use frame::Said;
pub use given::{GIVEN_MAX, Given};
pub use host::{Host, MODULES, run};
pub use init::InitError;
