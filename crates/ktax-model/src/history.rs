use serde::{Deserialize, Serialize};

use super::{Machine, Verdict};

/// What rows cost over kernels, from measurements of the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// What is counted: a Metric's name.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryLine {
    /// The row's name.
    pub row: String,
    /// What one operation is.
    pub operation: String,
    /// Operations in one measurement.
    pub ops: u64,
    /// What the kernels have in common: their flavour and boot line. Lines of one row with the same
    /// lineage differ in how they were measured, and do not compare with each other.
    pub lineage: String,
    /// How they were measured: QEMU, guest programs, machine, layouts.
    pub measured: String,
    /// What of that a command line can ask for; absent in results of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<HistoryAsked>,
    /// One for each kernel.
    pub points: Vec<HistoryPoint>,
}

/// What a measurement is asked for beside kernel, boot line and row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryAsked {
    /// The CPU model and the memory.
    pub machine: Machine,
    /// Layouts.
    pub layouts: usize,
    /// What they follow from.
    pub seed: u64,
}

/// A measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryPoint {
    /// Where the kernel is in the lineage, from 0: the same for all lines of a lineage.
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
    /// How it differs from the anchor; absent of the first point, which is the first anchor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<AgainstAnchor>,
    /// How it differs from the kernel before it; absent of the first point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<AgainstBefore>,
    /// The functions that carry most of a step, the largest first: against the kernel before it,
    /// or against the anchor where many small changes add up. Empty where the cost does not step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<StepFunction>,
}

/// A point against the one before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgainstBefore {
    /// What follows.
    pub verdict: Verdict,
    /// The median over layouts, per operation.
    pub delta: f64,
    /// The same in percent; absent where the kernel before costs nothing.
    pub percent: Option<f64>,
    /// The minimum detectable effect in percent; absent with too few layouts for any.
    pub detectable_percent: Option<f64>,
}

/// What a function contributes to a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepFunction {
    /// Its symbol, without the compiler's suffixes.
    pub function: String,
    /// What it executes itself, change minus base, per operation.
    pub delta: f64,
}

/// A point against the last one that the cost had stepped to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgainstAnchor {
    /// Which point of the line the anchor is.
    pub anchor: usize,
    /// What follows. A change, or different work, makes this point the next anchor.
    pub verdict: Verdict,
    /// The median over layouts, per operation.
    pub delta: f64,
    /// The same in percent; absent where the anchor has none.
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
        self.against.as_ref().is_some_and(|it| it.is_step())
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
