//! Ledgers: the costs of several additions to one base.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Costly, Estimate, GuestsPlan, Key, LowHigh, Verdict, Warning};

/// Costs of several additions to one base: of each addition alone, and of all together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerTable {
    /// One line for people.
    pub title: String,
    /// Data of the base, by method.
    pub method: LedgerMethod,
    pub layouts: usize,
    /// Threshold of all verdicts; absent in tables of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_percent: Option<f64>,
    /// Words of the command line that repeats the measurement; empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<String>,
    /// Rows, one for each Workload.
    pub rows: Vec<LedgerRow>,
    /// Additions that the base's kernel has by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub already_on: Vec<AlreadyOn>,
    /// Names of additions that could not be built, with reasons.
    pub not_built: Vec<(String, String)>,
    /// Names of additions, with warnings about them.
    pub warnings: Vec<(String, Warning)>,
}

/// Part of an addition that the base's kernel has by default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AlreadyOn {
    #[serde(rename = "added")]
    pub addition: String,
    /// Kernel parameter or options that are on by default.
    #[serde(rename = "what")]
    pub setting: String,
    /// Reason why the parameter or options are on.
    #[serde(rename = "because")]
    pub reason: String,
    /// Kernel parameter or options that turn the addition off in the base, so that its cost can be
    /// measured; empty if nothing turns it off.
    #[serde(rename = "instead")]
    pub replacement: String,
}

impl AlreadyOn {
    /// True if something turns the addition off, so that the base was measured without it.
    pub fn is_off_in_base(&self) -> bool {
        !self.replacement.is_empty()
    }

    /// Sentence for people, such as
    /// `x=on is already on: CONFIG_X=y; the base boots with x=off to measure it`.
    pub fn text(&self) -> String {
        let AlreadyOn { setting, reason, replacement, .. } = self;
        let base = match replacement.as_str() {
            "" => "nothing turns it off, so it costs nothing here".to_owned(),
            options if options.starts_with("CONFIG_") => {
                format!("the base is built with {options} to measure it")
            }
            parameter => format!("the base boots with {parameter} to measure it"),
        };
        format!("{setting} is already on: {reason}; {base}")
    }
}

/// Data of a ledger's base, by method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
// A ledger has only one of these, so a box would save no memory.
#[allow(clippy::large_enum_variant)]
pub enum LedgerMethod {
    /// Instructions, counted exactly.
    Counts {
        key: Key,
        /// Name of the base's Kernel, and the base's other settings.
        base: (String, String),
    },
    /// Exits of guests of a KVM host, with the Plan of the base alone.
    Guests(GuestsPlan),
}

/// Costs of the additions for one Workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerRow {
    pub row: String,
    /// Cost without additions: instructions of one operation, or for guests the time, ns.
    pub base: f64,
    /// Entry of each addition, the most expensive first.
    pub entries: Vec<LedgerEntry>,
    /// Entry of all additions at once.
    #[serde(rename = "together")]
    pub combination: Option<LedgerEntry>,
    /// Interactions between the additions, one for each Metric of [`LedgerCosts::metrics`]. Empty
    /// if an entry was not measured.
    pub interactions: Vec<LedgerInteraction>,
}

/// Cost of one addition to a Workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerEntry {
    pub name: String,
    pub verdict: Verdict,
    pub decided_by: String,
    /// Costs of the addition; absent if it was not measured.
    pub costs: Option<LedgerCosts>,
}

/// Costs of one addition by Metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerCosts {
    /// Cost in the first Metric: instructions in process context, or for guests the time. The
    /// additions are ranked by this cost if there is no estimate.
    #[serde(rename = "all")]
    pub first_metric: LedgerCost,
    /// Estimated cycles on a machine, by which the additions are ranked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// Changes of the numbers of costly instructions, per operation; kinds without a change are
    /// omitted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub costly: BTreeMap<Costly, f64>,
    /// Costs in the deciding Metrics: instructions and REP iterations, or for guests the time.
    pub metrics: Vec<LedgerMetric>,
    /// Numbers of exits by reason, in the Layout with the median delta; only for guests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<LedgerExits>,
}

impl LedgerCosts {
    /// True if `has_kind` holds for the Verdict of a deciding Metric.
    pub fn has_verdict(&self, has_kind: fn(Verdict) -> bool) -> bool {
        self.metrics.iter().any(|metric| has_kind(metric.cost.verdict))
    }

    /// Interval of the estimated cost on a machine, in percent of the base's cycles.
    pub fn estimated_percent(&self) -> Option<LowHigh> {
        self.estimate.as_ref()?.percent
    }

    /// Changed Metrics for which the machine's file has no cost, and which the estimate omits.
    pub fn uncosted_metrics(&self) -> impl Iterator<Item = &str> {
        self.estimate.iter().flat_map(|estimate| estimate.left_out.keys().map(String::as_str))
    }

    /// Ends of the estimate that are open because of Metrics without a known cost.
    pub fn open_end(&self) -> OpenEnd {
        let deltas = || self.estimate.iter().flat_map(|estimate| estimate.left_out.values());
        match (deltas().any(|delta| *delta > 0.0), deltas().any(|delta| *delta < 0.0)) {
            (false, false) => OpenEnd::Neither,
            (true, false) => OpenEnd::Upper,
            (false, true) => OpenEnd::Lower,
            (true, true) => OpenEnd::Both,
        }
    }

    /// Value in percent by which the addition is ranked: the middle of the estimate, else the
    /// change of `first_metric`.
    pub fn rank(&self) -> Option<f64> {
        match self.estimated_percent() {
            // The errors of an estimate are ratios, so its middle is the geometric mean.
            Some([low, high]) if low > 0.0 || high < 0.0 => {
                Some((low * high).sqrt() * low.signum())
            }
            Some([low, high]) => Some((low + high) / 2.0),
            None => self.first_metric.percent,
        }
    }

    /// Cost in a deciding Metric; `None` if it was not measured.
    pub fn metric(&self, name: &str) -> Option<&LedgerCost> {
        self.metrics.iter().find(|known| known.metric == name).map(|known| &known.cost)
    }
}

/// Cost of an addition in one Metric.
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
    /// Number with the addition.
    pub change: u64,
}

/// Change of one Metric by an addition: per operation, or for guests the total.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerCost {
    /// Value without the addition, in the Layout with the median delta.
    pub base: f64,
    /// Value with the addition minus `base`.
    pub delta: f64,
    /// `delta` in percent of `base`; absent if `base` is 0 and `delta` is not.
    pub percent: Option<f64>,
    /// Smallest absolute delta that would have been called a change, as in an Effect.
    pub detectable: Option<f64>,
    pub verdict: Verdict,
}

/// Difference between the cost of all additions together and the sum of their costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LedgerInteraction {
    pub metric: String,
    /// `base` is the sum of base and additions; `delta` is the measured cost minus this sum.
    #[serde(rename = "beyond")]
    pub excess: LedgerCost,
}

/// Open ends of an estimate that omits Metrics without a known cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenEnd {
    /// No changed Metric was omitted.
    Neither,
    /// Omitted Metrics increased: the addition costs at least the lower end.
    Upper,
    /// Omitted Metrics decreased: the addition costs at most the upper end.
    Lower,
    /// Some omitted Metrics increased, others decreased.
    Both,
}
