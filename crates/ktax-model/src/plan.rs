use serde::{Deserialize, Serialize};

use super::counts::CountsPlan;
use super::guests::GuestsPlan;
use super::times::TimesPlan;

/// Everything that a run needs to know: `plan.json`. `M` is what only the method needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan<M = PlanMethod> {
    /// [`super::FORMAT`].
    pub format: u32,
    /// One line for people.
    pub title: String,
    /// What the Layouts, or the order of the pairs, are drawn from.
    pub seed: u64,
    /// A change below this many percent gets no verdict.
    pub threshold_percent: f64,
    /// How it is measured.
    pub method: M,
}

/// How it is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
// There are few of them at a time: a box would only be in the way.
#[allow(clippy::large_enum_variant)]
pub enum PlanMethod {
    /// Instructions, counted exactly.
    Counts(CountsPlan),
    /// Times of pairs.
    Times(TimesPlan),
    /// Exits of guests of a KVM host.
    Guests(GuestsPlan),
}

impl<M> Plan<M> {
    /// The same Plan with another method.
    pub fn with<N>(self, of: impl FnOnce(M) -> N) -> Plan<N> {
        let Plan { format, title, seed, threshold_percent, method } = self;
        Plan { format, title, seed, threshold_percent, method: of(method) }
    }
}

impl From<CountsPlan> for PlanMethod {
    fn from(plan: CountsPlan) -> PlanMethod {
        PlanMethod::Counts(plan)
    }
}

impl From<TimesPlan> for PlanMethod {
    fn from(plan: TimesPlan) -> PlanMethod {
        PlanMethod::Times(plan)
    }
}

impl From<GuestsPlan> for PlanMethod {
    fn from(plan: GuestsPlan) -> PlanMethod {
        PlanMethod::Guests(plan)
    }
}
