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
mod checksums;
mod counts;
mod effect;
mod error;
mod estimate;
mod fallbacks;
mod growth;
mod guests;
mod history;
mod ledger;
mod lost;
mod native;
mod one_image;
mod parameters;
mod settled;
mod stat;
mod times;
mod traced;
mod validated;
mod work;

pub use calibrated::{calibration_rows, fit};
pub use counts::{CountsRuns, counts, plain, row_paths};
pub use error::AnalyseError;
pub use estimate::estimate;
pub use guests::guests;
pub use history::{PointCounts, against_anchors, against_before, complete, step_functions};
pub use ledger::ledger;
pub use native::{derive_columns, is_column, usual_columns};
pub use one_image::one_image;
pub use parameters::unknown_parameters;
pub use stat::counters;
pub use times::{
    Progress, estimates, in_blocks, is_drawn, never_ran, noise, of_blocks, progress, times, turns,
    wants_more, why_ended,
};
pub use traced::{TraceDifference, between_traces};
pub use validated::validate;
