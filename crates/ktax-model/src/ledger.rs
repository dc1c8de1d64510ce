//! Ledgers: the cost of each of several additions to one base.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Costly, Estimate, GuestsPlan, Key, LowHigh, Verdict, Warning};

/// Costs of several additions to one base, of each and of all of them together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerTable {
    /// One line for people.
    pub title: String,
    /// Data of the method about the base.
    pub method: LedgerMethod,
    pub layouts: usize,
    /// Threshold of all verdicts; absent in tables of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_percent: Option<f64>,
    /// Words of the command line that measures the same again; empty if it is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<String>,
    /// One for each Workload.
    pub rows: Vec<LedgerRow>,
    /// Additions that the base would have had by itself: it was measured without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub already_on: Vec<AlreadyOn>,
    /// Additions that could not be built, and why.
    pub not_built: Vec<(String, String)>,
    /// Warnings about additions.
    pub warnings: Vec<(String, Warning)>,
}

/// Part of an addition that the base's kernel has by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AlreadyOn {
    pub added: String,
    /// Parameter or options that are on.
    pub what: String,
    /// Reason why they are on.
    pub because: String,
    /// Parameter or options that the base gets instead, to measure it; empty if nothing turns it
    /// off.
    pub instead: String,
}

impl AlreadyOn {
    /// True if something turns the addition off, so that the base was measured without it.
    pub fn is_off_in_base(&self) -> bool {
        !self.instead.is_empty()
    }

    /// `already on: CONFIG_X=y; the base boots with x=off to measure it`.
    pub fn text(&self) -> String {
        let AlreadyOn { what, because, instead, .. } = self;
        let base = match instead.as_str() {
            "" => "nothing turns it off, so it costs nothing here".to_owned(),
            options if options.starts_with("CONFIG_") => {
                format!("the base is built with {options} to measure it")
            }
            parameter => format!("the base boots with {parameter} to measure it"),
        };
        format!("{what} is already on: {because}; {base}")
    }
}

/// Data of a method about a ledger's base.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
// Only one exists, so a box would save nothing.
#[allow(clippy::large_enum_variant)]
pub enum LedgerMethod {
    /// Instructions, counted exactly.
    Counts {
        key: Key,
        /// Name of the base's Kernel, and its other settings.
        base: (String, String),
    },
    /// Exits of guests of a KVM host; the Plan is that of the base alone.
    Guests(GuestsPlan),
}

/// One Workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerRow {
    pub row: String,
    /// Cost without any addition: instructions of one operation; of guests the time, ns.
    pub base: f64,
    /// The additions, the most expensive first.
    pub entries: Vec<LedgerEntry>,
    /// All of them at once.
    pub together: Option<LedgerEntry>,
    /// Difference of all of them at once from the sum of the additions, by Metric, as in
    /// [`LedgerCosts::metrics`]. Empty where something was not measured.
    pub interactions: Vec<LedgerInteraction>,
}

/// Cost of one addition to a Workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerEntry {
    pub name: String,
    pub verdict: Verdict,
    pub decided_by: String,
    /// Absent if nothing was measured.
    pub costs: Option<LedgerCosts>,
}

/// Changes by an addition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerCosts {
    /// First metric: instructions in process context; for guests the time. It ranks the additions
    /// if there is no estimate.
    pub all: LedgerCost,
    /// Cycles of a machine, by which the additions are ranked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Costly instructions that changed: how many more per operation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub costly: BTreeMap<Costly, f64>,
    /// Metrics that decide: instructions and REP iterations; of guests the time.
    pub metrics: Vec<LedgerMetric>,
    /// Numbers of exits of guests by reason, in the Layout with the median delta.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<LedgerExits>,
}

impl LedgerCosts {
    /// True if the Verdict of any Metric is of this kind.
    pub fn any(&self, has_kind: fn(Verdict) -> bool) -> bool {
        self.metrics.iter().any(|metric| has_kind(metric.cost.verdict))
    }

    /// Cost of the addition on a machine, in percent of the base's cycles, from and up to.
    pub fn estimated_percent(&self) -> Option<LowHigh> {
        self.estimate.as_ref()?.percent
    }

    /// Changed Metrics that the machine's file does not know; the estimate leaves them out.
    pub fn left_out(&self) -> impl Iterator<Item = &str> {
        self.estimate.iter().flat_map(|estimate| estimate.left_out.keys().map(String::as_str))
    }

    /// End of the estimate that stays open because instructions that were not timed add to the cost
    /// or save some of it.
    pub fn open_end(&self) -> OpenEnd {
        let deltas = || self.estimate.iter().flat_map(|estimate| estimate.left_out.values());
        match (deltas().any(|delta| *delta > 0.0), deltas().any(|delta| *delta < 0.0)) {
            (false, false) => OpenEnd::Neither,
            (true, false) => OpenEnd::Upper,
            (false, true) => OpenEnd::Lower,
            (true, true) => OpenEnd::Both,
        }
    }

    /// Rank of the addition, in percent: the middle of the estimate, else the change of `all`.
    pub fn rank(&self) -> Option<f64> {
        match self.estimated_percent() {
            // The error of an estimate is a ratio, so take the geometric mean.
            Some([low, high]) if low > 0.0 || high < 0.0 => {
                Some((low * high).sqrt() * low.signum())
            }
            Some([low, high]) => Some((low + high) / 2.0),
            None => self.all.percent,
        }
    }

    pub fn metric(&self, name: &str) -> Option<&LedgerCost> {
        self.metrics.iter().find(|known| known.metric == name).map(|known| &known.cost)
    }
}

/// Cost of one Metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerMetric {
    pub metric: String,
    pub cost: LedgerCost,
}

/// Number of exits for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerExits {
    pub reason: String,
    /// Number without the addition.
    pub base: u64,
    /// Number with it.
    pub change: u64,
}

/// Difference of one Metric, per operation; of guests in all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerCost {
    /// Value without the addition, in the Layout whose delta is the median.
    pub base: f64,
    /// Value with the addition, less the base.
    pub delta: f64,
    /// In percent of the base; absent where that is 0 and the delta is not.
    pub percent: Option<f64>,
    /// Smallest delta that would have been slower or faster, as in an Effect.
    pub detectable: Option<f64>,
    pub verdict: Verdict,
}

/// Cost of all additions together beyond the sum of their costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerInteraction {
    pub metric: String,
    /// `base` is expected from the sum, `delta` is the rest.
    pub beyond: LedgerCost,
}

/// The end of an estimate that costs which were not timed move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenEnd {
    /// Everything that changed was timed.
    Neither,
    /// The addition costs at least the lower end.
    Upper,
    /// The addition costs at most the upper end.
    Lower,
    /// Some instructions come on top, others are saved.
    Both,
}
