//! The exact engine: QEMU TCG under icount, counted by the plugin, each Run from the same Snapshot.

mod engine;
mod frozen;
mod self_test;
mod snapshot;
mod symbols;
mod tools;

pub use super::paths::Paths;
pub use engine::Exact;
pub use self_test::SelfTest;
pub use snapshot::save_state;

use super::entry::{CountsSetup, EngineEntry, Measures};
use ktax_model::RunsOn;

/// Its place in the list of engines.
pub const ENGINE: EngineEntry = EngineEntry {
    name: engine::NAME,
    about: "Count instructions under QEMU's translator: the same numbers everywhere",
    runs_on: RunsOn::Guests,
    measures: Measures::Counts {
        key: Exact::key,
        open: |CountsSetup { qemu, cpus, cache, limits, cancel, guest }| {
            let engine = Exact::of(guest, qemu, cache, limits, cancel)?;
            if cpus > 1 {
                engine.check_slices()?;
            }
            Ok(Box::new(engine))
        },
    },
};
