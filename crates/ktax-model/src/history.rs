//! Costs over kernels, and bisections: searches for the elements of a chain that carry a
//! difference.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Machine, Verdict};

/// Costs of rows over kernels, from measurements in the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct History {
    pub metric: String,
    /// Function whose own counts are shown; absent for the counts of the whole row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Smallest difference that is a step, in percent.
    pub threshold_percent: f64,
    /// Lines, sorted so that the lines of one row are neighbours.
    pub lines: Vec<HistoryLine>,
}

/// Comparable measurements of one row, in the order of their kernels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryLine {
    pub row: String,
    pub operation: String,
    /// Operations in one measurement.
    pub ops: u64,
    /// Flavour and boot line that all kernels of the line have. Two lines of one row with equal
    /// lineage have different conditions of measurement.
    pub lineage: String,
    /// Conditions of the measurements: QEMU, guest programs, machine, layouts.
    pub measured: String,
    /// Conditions that can be given on a command line; absent in results of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<HistoryAsked>,
    /// Points, one for each kernel.
    pub points: Vec<HistoryPoint>,
}

/// Conditions of a measurement that can be given on a command line, without kernel, boot line and
/// row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryAsked {
    /// CPU model and memory.
    pub machine: Machine,
    pub layouts: usize,
    pub seed: u64,
}

/// Measurement of one kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryPoint {
    /// Position of the kernel in the lineage, from 0.
    #[serde(rename = "place")]
    pub position: usize,
    /// Name of the subject, as `ktax diff` takes it.
    pub name: String,
    pub kernel: String,
    /// `debian:NAME=VERSION` of a kernel that anyone can fetch and measure; absent for other
    /// kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot_line: String,
    /// Tags of the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Count under each layout, for all operations together.
    pub values: Vec<u64>,
    /// Difference from the anchor; absent for the first point, which is the first anchor.
    #[serde(rename = "against", default, skip_serializing_if = "Option::is_none")]
    pub anchor_difference: Option<AnchorDifference>,
    /// Difference from the previous point; absent for the first point.
    #[serde(rename = "before", default, skip_serializing_if = "Option::is_none")]
    pub previous_difference: Option<PreviousDifference>,
    /// Functions that carry most of a step, the largest share first. The step is the difference
    /// from the point that [`HistoryPoint::step_base`] names. Empty without a step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<StepFunction>,
}

/// Difference of a point from the previous point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviousDifference {
    pub verdict: Verdict,
    /// Median delta over the layouts, per operation.
    pub delta: f64,
    /// Median delta in percent; absent if the previous point has a cost of 0.
    pub percent: Option<f64>,
    /// Minimum detectable effect in percent; absent with too few layouts.
    pub detectable_percent: Option<f64>,
}

/// Contribution of a function to a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepFunction {
    /// Symbol, without the compiler's suffixes.
    pub function: String,
    /// Difference of the function's own cost per operation, change minus base.
    pub delta: f64,
}

/// Difference of a point from its anchor: the point of the last step before it, or the first point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnchorDifference {
    /// Index of the anchor in the line.
    pub anchor: usize,
    /// Verdict of the difference. A change or different work makes this point the next anchor.
    pub verdict: Verdict,
    /// Median delta over the layouts, per operation.
    pub delta: f64,
    /// Median delta in percent; absent if the anchor has a cost of 0.
    pub percent: Option<f64>,
    /// Minimum detectable effect in percent; absent with too few layouts, and in results of older
    /// releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable_percent: Option<f64>,
}

impl HistoryPoint {
    /// Median cost over the layouts, per operation.
    pub fn cost(&self, ops: u64) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_unstable();
        let median = sorted.get(sorted.len().saturating_sub(1) / 2).copied();
        median.unwrap_or(0) as f64 / ops.max(1) as f64
    }

    /// True if the cost has a step at this point.
    pub fn is_step(&self) -> bool {
        self.anchor_difference.as_ref().is_some_and(|against| against.is_step())
    }

    /// Index of the point that a step at point `index` is compared with: the previous point if the
    /// cost changed between the two, else the anchor. `None` without a step.
    pub fn step_base(&self, index: usize) -> Option<usize> {
        let against = self.anchor_difference.as_ref().filter(|against| against.is_step())?;
        let is_sudden =
            self.previous_difference.as_ref().is_some_and(|before| before.verdict.is_change());
        Some(if is_sudden { index.checked_sub(1)? } else { against.anchor })
    }
}

impl AnchorDifference {
    /// True if the point has a step, and so is the next anchor.
    pub fn is_step(&self) -> bool {
        self.verdict.is_change() || self.verdict == Verdict::DifferentWork
    }
}

/// Kinds of chains. A chain lists the elements by which base and change differ: each element is one
/// step from the base to the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Chain {
    /// Commits of a repository, along the first parents.
    Commits,
    /// Options of a kernel's configuration.
    Options,
    /// Patches, each applied on top of the previous ones.
    Patches,
    /// Parameters of the boot line.
    Parameters,
}

impl Chain {
    /// Singular and plural noun for an element.
    pub fn nouns(self) -> (&'static str, &'static str) {
        match self {
            Chain::Commits => ("commit", "commits"),
            Chain::Options => ("option", "options"),
            Chain::Patches => ("patch", "patches"),
            Chain::Parameters => ("parameter", "parameters"),
        }
    }
}

/// Element of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Element {
    /// Id of a commit, option with its value, path of a patch, or parameter.
    pub name: String,
    /// One line for people: subject of a commit, or value of an option in the base.
    pub title: String,
    /// True for a merge commit.
    pub is_merge: bool,
}

/// Measurement of the base with a number of elements applied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// Cost of one operation, in the Metric's unit.
    Cost(f64),
    /// Reason why the kernel could not be measured.
    Skipped(String),
}

/// Element, or several neighbouring elements, that carry a share of the difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Carrier {
    /// Number of elements before the carrier.
    #[serde(rename = "after")]
    pub count_before: usize,
    /// Number of elements up to the carrier: `count_before + 1`, or more if points in between could
    /// not be measured.
    #[serde(rename = "at")]
    pub count_with: usize,
    /// Difference that the carrier makes, per operation.
    pub delta: f64,
    /// Share of the difference between base and change, in percent.
    pub share_percent: f64,
}

/// Search for the elements that carry the difference between two Subjects: `bisection.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bisection {
    /// One line for people.
    pub title: String,
    pub chain: Chain,
    /// Elements, from the base to the change.
    pub elements: Vec<Element>,
    /// Numbers of the likely carriers, which are tried first. The first element has number 1.
    #[serde(rename = "likely")]
    pub likely_elements: Vec<usize>,
    pub row: String,
    pub metric: String,
    /// Largest difference per operation that is not searched.
    pub negligible: f64,
    /// Measured points, by the number of elements. The points of base and change are always there.
    pub points: BTreeMap<usize, Point>,
    /// Words of the command line that repeats the search; empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<String>,
    /// Carriers, the largest difference first; `None` until the search is done.
    #[serde(rename = "found")]
    pub carriers: Option<Vec<Carrier>>,
}

impl Bisection {
    /// Cost of the base with `count` elements; `None` if it was not measured.
    pub fn cost(&self, count: usize) -> Option<f64> {
        match self.points.get(&count) {
            Some(Point::Cost(cost)) => Some(*cost),
            _ => None,
        }
    }

    /// Costs of base and change; `None` if one was not measured.
    pub fn ends(&self) -> Option<(f64, f64)> {
        Some((self.cost(0)?, self.cost(self.elements.len())?))
    }

    /// True if the fields are consistent. A file may be damaged.
    pub fn is_sound(&self) -> bool {
        let last = self.elements.len();
        // Messages have the id in a command for users to copy, so it must be harmless to a shell.
        let is_id = |name: &str| name.bytes().all(|byte| byte.is_ascii_hexdigit());
        last > 0
            && self.ends().is_some()
            && self.negligible >= 0.0
            && crate::metric(&self.metric).is_some()
            && self.points.keys().all(|count| *count <= last)
            && (self.chain != Chain::Commits
                || self.elements.iter().all(|element| is_id(&element.name)))
    }
}
