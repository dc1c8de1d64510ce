//! How a Subject runs. Two small traits, [`Engine`] for counts and [`Timed`] for times, so that
//! everything above can be tested against a fake. The exact engine boots QEMU with ktax's plugin,
//! in `plugin/`, and ktax's guest, in `guest/`; [`wire`] is the only parser of what a guest prints.
//! Other engines time rows on the running kernel or in guests of KVM. [`limits`] has every limit.
//!
//! ```
//! assert!(ktax_engine::named("exact").is_some());
//! ```
//!
//! A new engine is a folder with an [`EngineEntry`] in it, and a line in the list below.

pub mod argv;
mod clock;
pub mod command;
mod console;
mod contract;
pub mod counters;
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
pub mod wire;

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
