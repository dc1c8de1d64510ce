//! Joins the phases: an [`Experiment`] is planned, run and analysed, whatever its method. What
//! needs no plan is here too: commands that are counted, native runs, recordings, the doctor.
//!
//! The commands call this, and so can a program that uses the library: a [`Session`] says what may
//! be used and who is told what is going on.
//!
//! [`Experiment`]: crate::plan::Experiment

pub mod bisect;
mod cache;
pub mod campaign;
mod check;
mod context;
mod counts;
mod cycles;
pub mod doctor;
mod error;
pub mod exits;
mod file;
mod guests;
mod import;
mod kept;
mod kernels;
pub mod kvm_host;
pub mod ledger;
mod limits;
mod moment;
mod native;
mod noise;
mod options;
mod phases;
mod programs;
pub mod remaining;
mod saved;
mod session;
mod stale;
mod stat;
mod store;
mod stored;
mod sweep;
mod times;
mod touching;
mod traced;
mod used_store;
mod whole;
mod workloads;

pub use crate::store::Checked;
pub use cache::{cache_contents, clean_cache, keep_cache_small, removed};
pub use check::check;
pub use context::OrHost;
pub use cycles::{
    CalibrateError, CalibrateOrder, EstimateError, calibrate, calibrated,
    estimate as estimate_cycles, validate, validate_results,
};
pub use error::Error;
pub use file::{
    built_in_text, campaign_text, check_output, experiment_text, ledger_text, model, write_output,
};
pub use import::{Added, copy_store, import, is_store};
pub use kernels::why_unbuilt;
pub use limits::{Limit, limits};
pub use moment::Moment;
pub use native::NativeOrder;
pub use noise::explain_noise;
pub use options::Options;
pub use phases::{analyse, estimate, plan, planned, run};
pub use saved::{explained, row_paths, saved};
pub use session::{Observer, Session, Silent, cache_directory, qemu_program};
pub use stale::StalePlanError;
pub use stat::{StatError, StatOrder, stat};
pub use store::{check_store, clean_store, store_footprint};
pub use stored::{
    DiffOrder, HistoryOrder, LogOrder, Prunable, Prune, PruneOrder, Shown, Stored, StoredError,
    guest,
};
pub use sweep::{directories, left, points, prepare};
pub use times::{BOOTS_OF_A_BLOCK, BlockError, CpuError, run_block};
pub use touching::{TOUCHING, Touched, TouchingError, expand_touching, touching};
pub use used_store::{UsedStore, store_directory};
pub use whole::{compare, measure, result};
pub use workloads::{checked_definitions, definitions_of};

// What the functions here are given and give, and the command that becomes another one to be
// counted.
pub use crate::analyse::Progress;
pub use crate::cache::{Budget, CacheKind, CacheSurvey, Cleaned};
pub use crate::engine::command::become_command;
pub use crate::engine::{Cancel, Limits};
pub use crate::index::{Instrument, StoredResult};
pub use crate::kernel::{KernelTask, TaskKind};
pub use crate::run::{Ended, Event, Timing};
pub use crate::stats::timed::drawn_for;
