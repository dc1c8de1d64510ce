//! How a Subject runs. Two small traits, [`Engine`] for counts and [`Timed`] for times, so that
//! everything above can be tested against a fake.

pub mod argv;
mod clock;
pub mod command;
mod console;
mod contract;
mod counters;
mod evict;
pub mod exact;
mod frozen;
mod hello;
pub mod host;
pub mod initramfs;
pub mod kvm;
pub mod limits;
pub mod monitor;
pub mod noise;
pub mod payload;
mod process;
pub mod qemu;
pub mod scratch;
mod snapshot;
mod stop;
mod symbols;
pub mod timed;
mod tools;
pub mod vm;

pub use console::read_tail;
pub use contract::{Engine, Frozen, RawAnswer, Request};
pub use limits::{Cancel, Limits};
pub use process::die_with_parent;
pub use scratch::remove_stale;
pub use snapshot::save_state;
pub use stop::Stop;
pub use timed::{Booted, Timed};
