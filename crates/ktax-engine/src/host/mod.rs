//! The running kernel. The guest's own programs run on it as plain processes. What a Side changes
//! on it is written down first, and restored.

pub mod changer;
mod check;
pub mod error;
pub mod journal;
mod left;
mod programs;
pub mod replayed;
mod setting;
pub mod settings;
#[cfg(test)]
mod tests;
mod timed;

pub use programs::Host;
pub use setting::Setting;
pub use settings::Running;
pub use timed::TimedHost;

use super::entry::{EngineEntry, Measures};
use ktax_model::RunsOn;

/// Its place in the list of engines.
pub const ENGINE: EngineEntry = EngineEntry {
    name: "host",
    about: "Time the running kernel: set each side's settings, then restore them",
    runs_on: RunsOn::RunningKernel,
    measures: Measures::Times { open: |setup| Ok(Box::new(TimedHost::open(setup)?)) },
};
