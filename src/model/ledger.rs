use serde::{Deserialize, Serialize};

use super::{GuestsPlan, Key, Verdict, Warning};

/// What each of several additions to one base costs, and all of them together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerTable {
    /// One line for people.
    pub title: String,
    /// What the method says of the base.
    pub method: LedgerMethod,
    /// Layouts per Side.
    pub layouts: usize,
    /// The threshold of all verdicts; absent in tables of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_percent: Option<f64>,
    /// The words of the command line that measures the same again; empty where it is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<String>,
    /// One for each Workload.
    pub rows: Vec<LedgerRow>,
    /// Additions that could not be built, and why.
    pub not_built: Vec<(String, String)>,
    /// What to know of an addition.
    pub warnings: Vec<(String, Warning)>,
}

/// What a method says of a ledger's base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
// There is one of them: a box would only be in the way.
#[allow(clippy::large_enum_variant)]
pub enum LedgerMethod {
    /// Instructions, counted exactly.
    Counts {
        /// What the counts compare with.
        key: Key,
        /// The base's Kernel, and what it has beside its name.
        base: (String, String),
    },
    /// Exits of guests of a KVM host; the Plan is that of the base alone.
    Guests(GuestsPlan),
}

/// One Workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerRow {
    /// The row's name.
    pub row: String,
    /// Without any addition: instructions of one operation; of guests the time, ns.
    pub base: f64,
    /// The additions, the most expensive first.
    pub entries: Vec<LedgerEntry>,
    /// All of them at once.
    pub together: Option<LedgerEntry>,
    /// How all of them at once differ from the sum of the additions, by Metric, as in
    /// [`LedgerCosts::metrics`]. Empty where something was not measured.
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

/// What an addition changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerCosts {
    /// What the additions are ranked by: instructions and REP iterations in process context, one
    /// counted as the other; of guests the time.
    pub all: LedgerCost,
    /// What decides: instructions and REP iterations; of guests the time.
    pub metrics: Vec<LedgerMetric>,
    /// Of guests: how often each exit reason was there, in the Layout with the median delta.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<LedgerExits>,
}

impl LedgerCosts {
    /// Whether one of the Metrics has this Verdict.
    pub fn any(&self, is: fn(Verdict) -> bool) -> bool {
        self.metrics.iter().any(|of| is(of.cost.verdict))
    }

    /// What a Metric of this name costs.
    pub fn metric(&self, name: &str) -> Option<&LedgerCost> {
        self.metrics.iter().find(|of| of.metric == name).map(|of| &of.cost)
    }
}

/// What one Metric does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerMetric {
    /// The Metric's name.
    pub metric: String,
    /// What it does.
    pub cost: LedgerCost,
}

/// How often a guest was left for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerExits {
    /// The exit reason.
    pub reason: String,
    /// Without the addition.
    pub base: u64,
    /// With it.
    pub change: u64,
}

/// What one Metric does, per operation; of guests in all.
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
