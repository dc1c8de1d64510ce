//! Costs over kernels, and the search for the elements of a chain that carry a difference.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Machine, Verdict};

/// Costs of rows over kernels, from measurements of the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct History {
    pub metric: String,
    /// Function whose own counts these are; absent for the counts of the whole row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// A difference below this many percent is no step.
    pub threshold_percent: f64,
    /// Lines that belong to one row are neighbours.
    pub lines: Vec<HistoryLine>,
}

/// Measurements of one row that compare with each other, in the order of their kernels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryLine {
    pub row: String,
    pub operation: String,
    /// Operations in one measurement.
    pub ops: u64,
    /// Common part of the kernels: flavour and boot line. Lines of one row with equal lineage were
    /// measured differently, and do not compare with each other.
    pub lineage: String,
    /// Conditions of the measurement: QEMU, guest programs, machine, layouts.
    pub measured: String,
    /// Conditions that a command line can ask for; absent in results of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<HistoryAsked>,
    /// One for each kernel.
    pub points: Vec<HistoryPoint>,
}

/// Conditions that a command line asks for, beside kernel, boot line and row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryAsked {
    /// CPU model and memory.
    pub machine: Machine,
    pub layouts: usize,
    pub seed: u64,
}

/// A measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryPoint {
    /// Position of the kernel in the lineage, from 0.
    pub place: usize,
    /// A name of the subject that `ktax diff` knows.
    pub name: String,
    pub kernel: String,
    /// `debian:NAME=VERSION`, with which anyone can measure it again; absent for other kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot_line: String,
    /// Tags that the user gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Counts under each layout, for all operations.
    pub values: Vec<u64>,
    /// Difference from the anchor; absent for the first point, which is the first anchor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<AgainstAnchor>,
    /// Difference from the kernel before it; absent for the first point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<AgainstBefore>,
    /// Functions that carry most of a step, the largest first: against the kernel before it, or
    /// against the anchor if many small changes add up. Empty without a step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<StepFunction>,
}

/// A point against the one before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgainstBefore {
    pub verdict: Verdict,
    /// The median over layouts, per operation.
    pub delta: f64,
    /// The median in percent; absent where the kernel before costs nothing.
    pub percent: Option<f64>,
    /// The minimum detectable effect in percent; absent with too few layouts for any.
    pub detectable_percent: Option<f64>,
}

/// Contribution of a function to a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepFunction {
    /// Symbol, without the compiler's suffixes.
    pub function: String,
    /// Difference of its own cost per operation, change minus base.
    pub delta: f64,
}

/// A point against its anchor, the last point that the cost had stepped to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgainstAnchor {
    /// Index of the anchor in the line.
    pub anchor: usize,
    /// A change, or different work, makes this point the next anchor.
    pub verdict: Verdict,
    /// The median over layouts, per operation.
    pub delta: f64,
    /// The median in percent; absent if the anchor costs nothing.
    pub percent: Option<f64>,
    /// The minimum detectable effect in percent; absent with too few layouts for any, and in
    /// results of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable_percent: Option<f64>,
}

impl HistoryPoint {
    /// Cost per operation, in the layout with the median.
    pub fn cost(&self, ops: u64) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_unstable();
        let median = sorted.get(sorted.len().saturating_sub(1) / 2).copied();
        median.unwrap_or(0) as f64 / ops.max(1) as f64
    }

    /// True if the cost steps here.
    pub fn is_step(&self) -> bool {
        self.against.as_ref().is_some_and(|against| against.is_step())
    }

    /// Index of the point that a step at `index` is compared with: the one before it if the cost
    /// changed between the two, else the anchor. `None` without a step.
    pub fn step_base(&self, index: usize) -> Option<usize> {
        let against = self.against.as_ref().filter(|against| against.is_step())?;
        let is_sudden = self.before.as_ref().is_some_and(|before| before.verdict.is_change());
        Some(if is_sudden { index.checked_sub(1)? } else { against.anchor })
    }
}

impl AgainstAnchor {
    /// True if the point is the next anchor.
    pub fn is_step(&self) -> bool {
        self.verdict.is_change() || self.verdict == Verdict::DifferentWork
    }
}

/// Difference of two Subjects, as a chain: each element is one step from the base to the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Chain {
    /// Commits of a history, on the line of first parents.
    Commits,
    /// Options of a kernel's configuration.
    Options,
    /// Patches, one on top of the other.
    Patches,
    /// Parameters of the boot line.
    Parameters,
}

impl Chain {
    /// Singular and plural noun.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Chain::Commits => ("commit", "commits"),
            Chain::Options => ("option", "options"),
            Chain::Patches => ("patch", "patches"),
            Chain::Parameters => ("parameter", "parameters"),
        }
    }
}

/// One step of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Element {
    /// A commit's id, an option with its value, a patch's path, a parameter.
    pub name: String,
    /// One line for people: a commit's subject, the value that an option had.
    pub title: String,
    /// True if other commits come in with it.
    pub is_merge: bool,
}

/// Measurement after a number of elements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// Cost of one operation, in the Metric's unit.
    Cost(f64),
    /// Reason why it could not be measured.
    Skipped(String),
}

/// An element that carries a share of the difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Carrier {
    /// Number of elements before it.
    pub after: usize,
    /// Number of elements with it: `after + 1`, or more if points between could not be measured.
    pub at: usize,
    /// Cost per operation.
    pub delta: f64,
    /// Share of the whole difference.
    pub share_percent: f64,
}

/// The search for the elements that carry the difference between two Subjects: `bisection.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bisection {
    /// One line for people.
    pub title: String,
    pub chain: Chain,
    /// From the base to the change.
    pub elements: Vec<Element>,
    /// Positions of the elements that are tried first, from 1.
    pub likely: Vec<usize>,
    pub row: String,
    pub metric: String,
    /// Difference per operation that is not looked into.
    pub negligible: f64,
    /// Known points, by the number of elements; both ends are known.
    pub points: BTreeMap<usize, Point>,
    /// Words of the command line that searches the same again; empty if it is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<String>,
    /// The largest first; `None` as long as the search goes on.
    pub found: Option<Vec<Carrier>>,
}

impl Bisection {
    /// Cost after `count` elements, if known.
    pub fn cost(&self, count: usize) -> Option<f64> {
        match self.points.get(&count) {
            Some(Point::Cost(cost)) => Some(*cost),
            _ => None,
        }
    }

    /// Costs of the base and the change.
    pub fn ends(&self) -> Option<(f64, f64)> {
        Some((self.cost(0)?, self.cost(self.elements.len())?))
    }

    /// True if its parts fit together; a file may hold anything.
    pub fn is_sound(&self) -> bool {
        let last = self.elements.len();
        // A commit's name is printed in a command that users copy.
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
