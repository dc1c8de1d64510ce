//! Joins the phases: plans, runs and analyses an [`Experiment`] of any method. Also has the work
//! without a plan: counted commands, native runs, recordings and the checks of `ktax doctor`.
//!
//! The commands call this module, and so can a program that uses the library. A [`Session`] names
//! the QEMU, the cache and the store to use, and the [`Observer`] that receives progress.
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

// Types of arguments and results, and the function that replaces this process by a counted command.
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
    CalibrationRequest, calibrate, calibrated, estimate as estimate_cycles, validate,
    validate_results,
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
pub use running_kernel::{NativeWorkload, StatRequest, stat};
pub use session::{
    Observer, RunEvent, Session, SilentObserver, cache_directory, clean_cache, describe_cleaned,
    keep_cache_small, qemu_program, why_unbuilt,
};
pub use store::{
    ImportSummary, UsedStore, clean_store, copy_store, import, is_store, store_directory,
};
#[cfg(test)]
pub(crate) use stored::stored_plan;
pub use stored::{
    HistoryRequest, ListedSubject, Prunable, PrunePlan, PruneRequest, Stored, is_row, short_guest,
};
pub use times::{BOOTS_OF_A_BLOCK, run_block};
pub use touching::{TOUCHING, Touched, expand_touching, touching};

/// Error for a plan that no longer fits this machine or its files.
fn stale_plan(message: impl Into<String>) -> Error {
    Error::user(message).next("plan again in a new directory")
}

/// Error for a plan whose engine this ktax does not have.
fn no_engine(measures: &str, name: &str) -> Error {
    stale_plan(format!("no engine for {measures} is called {name:?}"))
}

/// Error for a QEMU or a ktax that is not the plan's: exact counts only compare within one build of
/// both.
fn other_key(dir: &Path, planned: &Key, found: &Key) -> Error {
    stale_plan(format!(
        "{} was planned for QEMU {} and the ktax of that time, and this is QEMU {}: counts would \
         not compare",
        dir.display(),
        planned.qemu,
        found.qemu
    ))
}

/// Error for a name that now stands for another kernel than the plan's.
fn other_kernel(planned: &Identity) -> Error {
    stale_plan(format!("{} is another kernel than when the plan was made", planned.source))
}

/// Error for programs whose files have changed.
fn other_programs() -> Error {
    stale_plan("the program's files are not those of the plan any more")
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
