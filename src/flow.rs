//! Joins the phases: an [`Experiment`] is planned, run and analysed, whatever its method. Work
//! without a plan is here too: commands that are counted, native runs, recordings, the doctor.
//!
//! The commands call this, and so can a program that uses the library: a [`Session`] names the
//! QEMU, the cache and the store to use, and the [`Observer`] that is told of progress.
//!
//! [`Experiment`]: crate::plan::Experiment

pub mod bisect;
pub mod campaign;
mod counts;
mod cycles;
pub mod doctor;
pub mod exits;
mod guests;
pub mod kvm_host;
pub mod ledger;
mod limits;
mod phases;
mod programs;
pub mod remaining;
mod results;
mod running_kernel;
mod session;
mod store;
mod stored;
mod times;
mod touching;

use std::path::Path;

use crate::model::{Identity, Key};

// Types of arguments and results, and the function that becomes a counted command.
pub use crate::analyse::Progress;
pub use crate::cache::{Budget, CacheKind, CacheSurvey, Cleaned};
pub use crate::engine::command::become_command;
pub use crate::engine::{Cancel, Limits};
pub use crate::index::{Instrument, StoredResult};
pub use crate::kernel::{KernelTask, TaskKind};
pub use crate::model::{Error, ErrorContext};
pub use crate::run::{Ended, Event, Timing};
pub use crate::stats::timed::max_pairs_for;
pub use counts::explain_noise;
pub use cycles::{
    CalibrateOrder, calibrate, calibrated, estimate as estimate_cycles, validate, validate_results,
};
pub use limits::{Limit, limits};
pub use phases::{
    Options, analyse, analyse_and_keep, check, compare, describe_runs, estimate, measure, plan,
    planned, prepare_sweep, run, sweep_directories, sweep_points,
};
pub use programs::{checked_definitions, definitions_of};
pub use results::{
    built_in_text, campaign_text, check_output, experiment_text, explained, ledger_text, model,
    row_paths, saved, write_output,
};
pub use running_kernel::{NativeRuns, StatOrder, stat};
pub use session::{
    Observer, RunEvent, Session, Silent, cache_directory, clean_cache, describe_cleaned,
    keep_cache_small, qemu_program, why_unbuilt,
};
pub use store::{Added, UsedStore, clean_store, copy_store, import, is_store, store_directory};
#[cfg(test)]
pub(crate) use stored::stored_plan;
pub use stored::{
    HistoryOrder, ListedSubject, Prunable, Prune, PruneOrder, Stored, is_row, short_guest,
};
pub use times::{BOOTS_OF_A_BLOCK, run_block};
pub use touching::{TOUCHING, Touched, expand_touching, touching};

/// Error of a plan that no longer fits this machine or its files.
fn stale(message: impl Into<String>) -> Error {
    Error::user(message).next("plan again in a new directory")
}

fn no_engine(measures: &str, name: &str) -> Error {
    stale(format!("no engine for {measures} is called {name:?}"))
}

/// QEMU or ktax is not that of the plan, and exact counts belong to one build of each.
fn other_key(dir: &Path, planned: &Key, found: &Key) -> Error {
    stale(format!(
        "{} was planned for QEMU {} and the ktax of that time, and this is QEMU {}: counts would \
         not compare",
        dir.display(),
        planned.qemu,
        found.qemu
    ))
}

fn other_kernel(planned: &Identity) -> Error {
    stale(format!("{} is another kernel than when the plan was made", planned.source))
}

fn other_programs() -> Error {
    stale("the program's files are not those of the plan any more")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_plan_are_quoted_and_escaped() {
        let message = no_engine("times", "warp\x1b\n").to_string();
        assert_eq!(
            message,
            "no engine for times is called \"warp\\u{1b}\\n\"; plan again in a new directory"
        );
    }
}
