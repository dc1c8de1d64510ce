use serde::{Deserialize, Serialize};

use super::{Facts, Failure, Side, Sides, TimedPlan, Warning};

/// What a timed row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimedVerdict {
    /// The change takes longer, by the threshold at least.
    Slower,
    /// The change takes less time, by the threshold at least.
    Faster,
    /// Something differs, by less than the threshold.
    BelowThreshold,
    /// Nothing was seen; [`TimedRow::would_see_percent`] would have been.
    NoDetectedChange,
    /// There is no answer; [`TimedRow::why`] says why.
    Inconclusive,
    /// The work signatures differ: the times do not compare.
    DifferentWork,
    /// At least one Side has no times.
    Failed,
}

impl TimedVerdict {
    /// Whether it says something of the times.
    pub fn is_answer(self) -> bool {
        match self {
            TimedVerdict::Slower
            | TimedVerdict::Faster
            | TimedVerdict::BelowThreshold
            | TimedVerdict::NoDetectedChange => true,
            TimedVerdict::Inconclusive | TimedVerdict::DifferentWork | TimedVerdict::Failed => {
                false
            }
        }
    }

    /// As printed: `no detected change`.
    pub fn text(self) -> &'static str {
        match self {
            TimedVerdict::Slower => "slower",
            TimedVerdict::Faster => "faster",
            TimedVerdict::BelowThreshold => "below the threshold",
            TimedVerdict::NoDetectedChange => "no detected change",
            TimedVerdict::Inconclusive => "inconclusive",
            TimedVerdict::DifferentWork => "different work",
            TimedVerdict::Failed => "failed",
        }
    }
}

/// A ratio of change to base, as in 1.05, with the interval in which it lies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// Hodges and Lehmann's estimate.
    pub estimate: f64,
    /// The interval's lower end; 0 where it has none.
    pub low: f64,
    /// Its upper end; absent where it has none.
    pub high: Option<f64>,
}

/// The A/A pairs of a row: the base in both places.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AaControl {
    /// How many.
    pub pairs: usize,
    /// What they came to; 1 where the machine is fair.
    pub ratio: Ratio,
    /// How far two of them lie apart: a standard deviation, in percent.
    pub spread_percent: f64,
}

/// One Workload, timed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedRow {
    /// The Workload's row name.
    pub row: String,
    /// What one operation is.
    pub operation: String,
    /// Whether it is one of those that decide.
    pub headline: bool,
    /// What follows.
    pub verdict: TimedVerdict,
    /// Why there is no answer, or how the work differed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Nanoseconds of an operation: the median over the Boots, each the median of its loops. Absent
    /// where no Boot of a Side has times.
    pub ns: Sides<Option<f64>>,
    /// Change over base.
    pub ratio: Option<Ratio>,
    /// How many pairs.
    pub pairs: usize,
    /// How many rows are tested beside this one, with it.
    pub family: usize,
    /// The repeated p-value, adjusted for the family.
    pub p_adjusted: f64,
    /// The smallest change that would have been seen; absent where none would.
    pub would_see_percent: Option<f64>,
    /// The A/A pairs; absent of fewer than two.
    pub control: Option<AaControl>,
    /// Which share of the base's variance lies between Boots, the rest being between loops: at 100
    /// only more pairs help.
    pub between_boots_percent: Option<f64>,
    /// The first failure of each Side that has one, and how many Boots of it failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<TimedFailure>,
}

/// Boots of a Side in which a row has no times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedFailure {
    /// Which Side.
    pub side: Side,
    /// How many Boots.
    pub boots: usize,
    /// Why, of the first.
    pub failure: Failure,
}

/// Where the faster Side of a curve becomes the slower one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crossing {
    /// What the rows have in common.
    pub family: String,
    /// Which parameter changes along the curve.
    pub parameter: String,
    /// Between these two of its values.
    pub between: (u64, u64),
    /// At about this one, were the ratio's logarithm a straight line in the parameter's.
    pub at: f64,
    /// The ratios at both.
    pub ratios: (Ratio, Ratio),
    /// Whether both differ from 1 by more than chance.
    pub certain: bool,
}

/// What a run of timed pairs says: `comparison.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimedComparison {
    /// [`super::FORMAT`].
    pub format: u32,
    /// What was done.
    pub plan: TimedPlan,
    /// Pairs and A/A pairs on disk.
    pub pairs: usize,
    /// A/A pairs on disk.
    pub controls: usize,
    /// Why this machine cannot measure, if so: then every row is inconclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<String>,
    /// The rows, those that decide first.
    pub rows: Vec<TimedRow>,
    /// What the machine said of itself in the first Boot of each Side.
    pub facts: Sides<Facts>,
    /// Where the curves of the swept parameters cross.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crossings: Vec<Crossing>,
    /// Facts that travel with the result.
    pub warnings: Vec<Warning>,
}
