use serde::{Deserialize, Serialize};

use super::{Key, Verdict, Warning};

/// What each of several additions to one base costs, and all of them together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerTable {
    /// One line for people.
    pub title: String,
    /// What the counts compare with.
    pub key: Key,
    /// Layouts per Side.
    pub layouts: usize,
    /// The base's Kernel, and what it has beside its name.
    pub base: (String, String),
    /// One for each Workload.
    pub rows: Vec<LedgerRow>,
    /// Additions that could not be built, and why.
    pub not_built: Vec<(String, String)>,
    /// What to know of an addition.
    pub warnings: Vec<(String, Warning)>,
}

/// One Workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerRow {
    /// The row's name.
    pub row: String,
    /// Instructions of one operation without any addition.
    pub base: f64,
    /// The additions, the most expensive first.
    pub entries: Vec<LedgerEntry>,
    /// All of them at once.
    pub together: Option<LedgerEntry>,
    /// How all of them at once differ from the sum of the additions; of instructions, then of REP
    /// iterations. Empty where something was not measured.
    pub interactions: Vec<LedgerInteraction>,
}

/// What one addition costs a Workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerEntry {
    /// The addition.
    pub name: String,
    /// The row's.
    pub verdict: Verdict,
    /// The Metric whose Verdict that is.
    pub decided_by: String,
    /// What was measured; absent where nothing was.
    pub costs: Option<LedgerCosts>,
}

/// The counts in process context that an addition changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerCosts {
    /// Instructions and REP iterations, one counted as the other: what the additions are ranked by.
    pub all: LedgerCost,
    /// Instructions.
    pub instructions: LedgerCost,
    /// REP iterations.
    pub rep_iterations: LedgerCost,
}

/// What one count does, per operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerCost {
    /// Without the addition, in the Layout whose delta is the median.
    pub base: f64,
    /// With it, less the base.
    pub delta: f64,
    /// In percent of the base; absent where that is 0 and the delta is not.
    pub percent: Option<f64>,
    /// The smallest delta that would have been slower or faster, as an Effect has it.
    pub detectable: Option<f64>,
    /// What follows.
    pub verdict: Verdict,
}

/// What all additions cost together beyond the sum of what each costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerInteraction {
    /// The Metric's name.
    pub metric: String,
    /// The base is what the sum makes expect, the delta what is beyond it.
    pub beyond: LedgerCost,
}
