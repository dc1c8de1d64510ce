use serde::{Deserialize, Serialize};

use super::super::effect::Effect;
use super::super::{ExitRun, ExitTable, Side, Sides};
use super::GuestsPlan;

/// What the exits of a row's guests say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestsEvidence {
    /// With a change: [`TIME`], then [`EXITS`], of the change against the base. Without one:
    /// [`GUEST_TIME`] of the guest against the host itself, where the host did the same work.
    /// Empty where the row failed.
    pub effects: Vec<Effect>,
    /// The exit tables of the Layout that the first Effect is of; absent where the row failed.
    pub runs: Sides<Option<ExitRun>>,
    /// Time by Layout, in and out of the guest, ns; empty where a Side failed or is not there.
    pub times_ns: Sides<Vec<u64>>,
}

impl GuestsEvidence {
    /// The exit tables of a row, named by it and by their Sides where there are two.
    pub fn exit_tables(&self, row: &str) -> Vec<ExitTable> {
        let has_both = self.runs.base.is_some() && self.runs.change.is_some();
        let sides = [Side::Base, Side::Change].into_iter();
        let runs = sides.filter_map(|side| Some((side, self.runs.get(side).as_ref()?)));
        let named = |(side, run): (Side, &ExitRun)| {
            let of = if has_both { format!("{row}, {}", side.name()) } else { row.to_owned() };
            ExitTable { of, ..run.table.clone() }
        };
        runs.map(named).collect()
    }
}

/// The Metric of all of the vCPUs' time, in and out of the guest.
pub const TIME: &str = "time";
/// The Metric of how often the guest was left.
pub const EXITS: &str = "exits";
/// The Metric of the work's own time: base is the host itself, change is the guest.
pub const GUEST_TIME: &str = "guest-time";

/// What guests say of all rows together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestsComparison {
    /// What was done.
    pub plan: GuestsPlan,
}
