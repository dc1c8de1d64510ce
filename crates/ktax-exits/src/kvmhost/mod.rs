//! A KVM host within QEMU: real KVM on any kernel, also where this machine has no KVM. QEMU
//! emulates AMD's virtualization with nested paging.
//!
//! ```text
//! host ─► initramfs: a ktax, modules, files, the order
//!            │ QEMU boots it, and ktax is its first process
//!            ▼
//!         init: mounts, loads modules, runs the commands ─► frame: what the commands printed
//! ```
//!
//! Guest experiments use a [`GuestEngine`]. [`X86Guests`] boots such a host once for each Side and
//! Layout, and freezes it before the first command. Each row goes on from there with its own order:
//! the commands that record one guest. [`BoardGuests`] boots a [`Board`], whose first process, in
//! C, runs the one guest.

mod argv;
mod board;
mod board_guests;
mod board_host;
mod engine;
mod error;
mod frame;
mod frozen;
mod guest;
mod host;
mod init;
mod initramfs;
mod kept;
mod order;
mod own;
mod x86;

pub use board::Board;
pub use board_guests::{BoardGuests, BoardSetup, BoardSide, BoardWork};
pub use engine::{GuestEngine, ReadyHost, Recorded};
pub use error::HostError;
pub use frame::Said;
pub use guest::{Guest, Task};
pub use host::{KvmHost, MODULES, PLAIN};
pub use init::{InitError, main as init};
pub use initramfs::{FREEZE_PATH, GIVEN_MAX, Given};
pub use own::THIS_PROGRAM;
pub use x86::{HostKernel, X86Guests, X86Setup};
