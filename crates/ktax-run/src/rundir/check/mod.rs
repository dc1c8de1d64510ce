//! What no Plan of ktax's is: a plan may come from anywhere.

mod counts;
mod guests;
mod names;
mod times;

use names::{is_hash, is_plain_name, is_printable};

use ktax_model::{CampaignPlan, Identity, Plan, PlanMethod};

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

/// The same of a campaign. What its units plan is checked where their directories are made.
pub(super) fn campaign(plan: &CampaignPlan) -> Result<(), &'static str> {
    let has_hash = |kernel: &Identity| is_hash(&kernel.sha256);
    if !is_printable(&plan.title) {
        Err("the title has control characters")
    } else if !plan.timed.iter().all(|name| is_plain_name(name)) {
        Err("the name of a timed experiment is not of [A-Za-z0-9._-]")
    } else if !plan.subjects.iter().filter_map(|it| it.kernel.as_ref()).all(has_hash) {
        Err("a kernel's sha256 is not of 64 hexadecimal digits")
    } else {
        plan.fault().map_or(Ok(()), Err)
    }
}
