//! A run directory becomes a [`Comparison`]: what changed, by how much, and what carries it.
//! Nothing here measures or prints. The same directory gives the same Comparison, on any machine.
//! Estimates, ledgers, histories and validations are made from Comparisons here, too. The rule for
//! verdicts is in [`ktax_stats`].
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
pub use history::{PointCounts, against_anchors, against_before, complete, step_functions};
pub use ledger::ledger;
pub use native::{
    TraceDifference, between_traces, counters, derive_columns, is_column, usual_columns,
};
pub use times::{
    Progress, block_pairs, estimates, in_blocks, is_drawn, never_ran, noise, progress, times,
    turns, wants_more, why_ended,
};
pub use warnings::{one_image, unknown_parameters};
