//! What no Plan of ktax's is: a plan may come from anywhere.

mod counts;
mod guests;
mod names;
mod times;

use names::is_printable;

use crate::model::{Plan, PlanMethod};

/// Refuses what would leave the directory, act on a terminal, take all memory, or never end.
pub(super) fn check(plan: &Plan) -> Result<(), &'static str> {
    if !is_printable(&plan.title) {
        return Err("the title has control characters");
    }
    match &plan.method {
        PlanMethod::Counts(counts) => counts::check(counts),
        PlanMethod::Times(times) => times::check(times, plan.threshold_percent),
        PlanMethod::Guests(guests) => guests::check(guests),
    }
}
