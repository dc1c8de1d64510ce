use crate::model::{Plan, TimesPlan};
use crate::rundir::RunDir;

/// What the times are judged by: the Plan on disk stays what it is.
pub(super) fn judged(dir: &RunDir<TimesPlan>, allow_differences: bool) -> Plan<TimesPlan> {
    let mut plan = dir.plan().clone();
    plan.method.allow_differences |= allow_differences;
    plan
}
