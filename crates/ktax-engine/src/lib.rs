//! How a Subject runs. Two small traits, [`Engine`] for counts and [`Timed`] for times, so that
//! everything above can be tested against a fake. The exact engine boots QEMU with ktax's plugin,
//! in `plugin/`, and ktax's guest, in `guest/`; [`wire`] is the only parser of what a guest prints.
//! Other engines time rows on the running kernel or in guests of KVM. [`limits`] has every limit.
//!
//! ```
//! assert!(ktax_engine::named("exact").is_some());
//! ```
//!
//! A new engine is a file with an [`EngineEntry`] in it, and a line in the list below.

pub mod argv;
pub mod command;
pub mod counters;
mod engine;
pub mod limits;
pub mod noise;
pub mod operations;
pub mod payload;
pub mod qemu;
pub mod vm;
pub mod wire;

pub use command::die_with_parent;
pub use engine::{
    Booted, CountsSetup, Engine, EngineEntry, Frozen, Measures, RawAnswer, Request, Stop, Timed,
    TimedSetup, named,
};
pub use exact::save_state;
pub use limits::{Cancel, Limits};
pub use vm::read_tail;

engine::engines! [
    /// All engines; the first is the usual one.
    pub const ENGINES;
    mod exact;
    mod host;
    mod kvm;
];
