use serde::{Deserialize, Serialize};

use super::super::effect::Effect;
use super::super::{ExitRun, Sides};
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
