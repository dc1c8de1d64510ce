//! How a Subject runs. Two small traits, [`Engine`] for counts and [`Timed`] for times, so that
//! everything above can be tested against a fake.
//!
//! A new engine is a folder with an [`EngineEntry`] in it, and a line in the list below.

pub mod argv;
mod clock;
pub mod command;
mod console;
mod contract;
pub(crate) mod counters;
mod deadline;
mod entry;
mod hello;
pub mod initramfs;
pub mod limits;
pub mod monitor;
mod named;
pub mod noise;
pub mod operations;
mod paths;
pub mod payload;
mod process;
pub mod qemu;
mod stop;
pub mod timed;
pub mod vm;

entry::engines! [
    /// All engines; the first is the usual one.
    pub const ENGINES;
    mod exact;
    mod host;
    mod kvm;
];

pub use console::read_tail;
pub use contract::{Engine, Frozen, RawAnswer, Request};
pub use entry::{CountsSetup, EngineEntry, Measures, OpenError, TimedSetup};
pub use exact::save_state;
pub use limits::{Cancel, Limits};
pub use named::named;
pub use process::die_with_parent;
pub use stop::Stop;
pub use timed::{Booted, Timed};
