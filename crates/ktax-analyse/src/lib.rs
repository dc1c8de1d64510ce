//! Makes a [`Comparison`] from a run directory: what changed, by how much, and which functions
//! carry the change. This crate neither measures nor prints: a directory gives the same Comparison
//! on any machine. It also makes estimates, ledgers, histories and validations from Comparisons.
//! The rule for verdicts is in [`ktax_stats`].
//!
//! ```
//! assert_eq!(ktax_analyse::plain("do_sys_open.constprop.0.cold"), "do_sys_open");
//! ```
//!
//! [`Comparison`]: ktax_model::Comparison

mod calibrated;
mod counts;
mod effect;
mod estimate;
mod guests;
mod history;
mod ledger;
mod native;
mod times;
mod warnings;

pub use calibrated::{calibration_rows, fit, validate};
pub use counts::{CountsRuns, counts, plain, row_paths};
pub use estimate::estimate;
pub use guests::guests;
pub use history::{
    PointCounts, add_previous_differences, anchor_differences, previous_differences, step_functions,
};
pub use ledger::ledger;
pub use native::{
    TraceDifference, counters, default_columns, derive_columns, is_column, trace_difference,
};
pub use times::{
    Progress, block_pairs, compare_blocks, estimates, is_in_planned_order, never_ran, noise,
    planned_sides, progress, stop_reason, times, wants_more,
};
pub use warnings::{same_image_warning, unknown_parameters};
