use serde::{Deserialize, Serialize};

use super::super::Sides;
use super::{Facts, TimesPlan};

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

/// What one pair says of a row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairRatio {
    /// Its place among all pairs, from 0.
    pub pair: u32,
    /// Change over base; of an A/A pair the base in the change's place over the base.
    pub ratio: f64,
    /// Whether it is an A/A pair.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_control: bool,
}

/// What the pairs say of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimesEvidence {
    /// Nanoseconds of an operation: the median over the Boots, each the median of its loops. Absent
    /// where no Boot of a Side has times.
    pub ns: Sides<Option<f64>>,
    /// Change over base.
    pub ratio: Option<Ratio>,
    /// How many pairs.
    pub pairs: usize,
    /// How many rows are tested together: the p-value is corrected for these.
    pub family: usize,
    /// The p-value, corrected for the looks and the family.
    pub p_adjusted: f64,
    /// The minimum detectable effect, in percent; absent where there is none.
    pub detectable_percent: Option<f64>,
    /// The A/A pairs; absent where there are fewer than two.
    pub control: Option<AaControl>,
    /// Percent of the base's variance that lies between Boots, the rest being between loops: at 100
    /// only more pairs help.
    pub between_boots_percent: Option<f64>,
    /// The pairs in the order of time; empty in results of older releases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<PairRatio>,
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

/// What the pairs say of all rows together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimesComparison {
    /// What the order of the pairs was drawn from.
    pub seed: u64,
    /// What was done.
    pub plan: TimesPlan,
    /// Pairs on disk.
    pub pairs: usize,
    /// A/A pairs on disk.
    pub controls: usize,
    /// Why this machine cannot measure, if so: then every row is inconclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<String>,
    /// What the machine said of itself in the first Boot of each Side.
    pub facts: Sides<Facts>,
    /// After so many pairs of the change there was a look.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<usize>,
    /// Where the curves of the swept parameters cross.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crossings: Vec<Crossing>,
}
