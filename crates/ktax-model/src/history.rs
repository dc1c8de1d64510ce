//! Costs over kernels, and the search for the elements of a chain that carry a difference.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Machine, Verdict};

/// Costs of rows over kernels, from measurements of the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// Name of the Metric that is counted.
    pub metric: String,
    /// The function whose own counts these are; those of the whole row where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// A difference below this many percent is no step.
    pub threshold_percent: f64,
    /// Rows one after the other; the lines of one row that belong together are neighbours.
    pub lines: Vec<HistoryLine>,
}

/// Measurements of one row that compare with each other, in the order of their kernels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryLine {
    /// The row's name.
    pub row: String,
    /// One operation, in words.
    pub operation: String,
    /// Operations in one measurement.
    pub ops: u64,
    /// Common part of the kernels: their flavour and boot line. Lines of one row with the same
    /// lineage differ in how they were measured, and do not compare with each other.
    pub lineage: String,
    /// Conditions of the measurement: QEMU, guest programs, machine, layouts.
    pub measured: String,
    /// Part of that which a command line can ask for; absent in results of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<HistoryAsked>,
    /// One for each kernel.
    pub points: Vec<HistoryPoint>,
}

/// Conditions that a command line asks for, beside kernel, boot line and row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryAsked {
    /// The CPU model and the memory.
    pub machine: Machine,
    /// Layouts.
    pub layouts: usize,
    /// Seed of the layouts.
    pub seed: u64,
}

/// A measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryPoint {
    /// Place of the kernel in the lineage, from 0: the same for all lines of a lineage.
    pub place: usize,
    /// A name of the subject that `ktax diff` knows.
    pub name: String,
    /// The kernel's name.
    pub kernel: String,
    /// `debian:NAME=VERSION`, with which anyone can measure it again; absent of other kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// The kernel's boot line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot_line: String,
    /// Names that the user gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Under each layout, of all operations.
    pub values: Vec<u64>,
    /// Difference from the anchor; absent for the first point, which is the first anchor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<AgainstAnchor>,
    /// Difference from the kernel before it; absent for the first point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<AgainstBefore>,
    /// The functions that carry most of a step, the largest first: against the kernel before it,
    /// or against the anchor where many small changes add up. Empty where the cost does not step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<StepFunction>,
}

/// A point against the one before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgainstBefore {
    /// Verdict of the difference.
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
    /// Difference of its own cost, change minus base, per operation.
    pub delta: f64,
}

/// A point against the last one that the cost had stepped to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgainstAnchor {
    /// Which point of the line the anchor is.
    pub anchor: usize,
    /// Verdict of the difference. A change, or different work, makes this point the next anchor.
    pub verdict: Verdict,
    /// The median over layouts, per operation.
    pub delta: f64,
    /// The median in percent; absent where the anchor has none.
    pub percent: Option<f64>,
    /// The minimum detectable effect in percent; absent with too few layouts for any, and in
    /// results of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detectable_percent: Option<f64>,
}

impl HistoryPoint {
    /// Per operation, in the layout with the median.
    pub fn cost(&self, ops: u64) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_unstable();
        let median = sorted.get(sorted.len().saturating_sub(1) / 2).copied();
        median.unwrap_or(0) as f64 / ops.max(1) as f64
    }

    /// Whether the cost steps here.
    pub fn is_step(&self) -> bool {
        self.against.as_ref().is_some_and(|against| against.is_step())
    }

    /// The index of the point that a step at `index` is compared with: the one before it where the
    /// cost changed between the two, else the anchor. `None` where the cost does not step.
    pub fn step_base(&self, index: usize) -> Option<usize> {
        let against = self.against.as_ref().filter(|against| against.is_step())?;
        let is_sudden = self.before.as_ref().is_some_and(|before| before.verdict.is_change());
        Some(if is_sudden { index.checked_sub(1)? } else { against.anchor })
    }
}

impl AgainstAnchor {
    /// Whether the point is the next anchor.
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
    /// Singular and plural of the noun.
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
    /// Whether other commits come in with it.
    pub is_merge: bool,
}

/// Knowledge about the cost after a number of elements.
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
    /// The elements before it.
    pub after: usize,
    /// The elements with it: `after + 1`, or more where what is between could not be measured.
    pub at: usize,
    /// Cost of the element, per operation.
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
    /// Kind of the elements.
    pub chain: Chain,
    /// From the base to the change.
    pub elements: Vec<Element>,
    /// The places of those, from 1, that are tried first.
    pub likely: Vec<usize>,
    /// The Workload's row.
    pub row: String,
    /// The Metric that is followed.
    pub metric: String,
    /// A difference up to this, per operation, is not looked into.
    pub negligible: f64,
    /// Known points, by the number of elements; both ends are known.
    pub points: BTreeMap<usize, Point>,
    /// The words of the command line that searches the same again; empty where it is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<String>,
    /// Carriers that were found, the largest first; `None` as long as the search goes on.
    pub found: Option<Vec<Carrier>>,
}

impl Bisection {
    /// Cost after `place` elements, if it is known.
    pub fn cost(&self, place: usize) -> Option<f64> {
        match self.points.get(&place) {
            Some(Point::Cost(cost)) => Some(*cost),
            _ => None,
        }
    }

    /// Costs of the base and the change.
    pub fn ends(&self) -> Option<(f64, f64)> {
        Some((self.cost(0)?, self.cost(self.elements.len())?))
    }

    /// Whether it holds together, as one that was read from a file may not.
    pub fn is_sound(&self) -> bool {
        let last = self.elements.len();
        // A commit's name is printed in a command that users copy.
        let is_id = |name: &str| name.bytes().all(|byte| byte.is_ascii_hexdigit());
        last > 0
            && self.ends().is_some()
            && self.negligible >= 0.0
            && crate::metric(&self.metric).is_some()
            && self.points.keys().all(|place| *place <= last)
            && (self.chain != Chain::Commits
                || self.elements.iter().all(|element| is_id(&element.name)))
    }
}
