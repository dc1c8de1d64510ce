use serde::{Deserialize, Serialize};

use super::Side;

/// How the cost of an operation grows with a parameter, over rows that differ in nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Growth {
    /// What the rows have in common: `fork-pages`.
    pub family: String,
    /// The parameter: `pages`.
    pub parameter: String,
    /// Of which Side; natively there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
    /// `O(1)`, `O(pages)`, `O(pages^1.3)` or `unclear`.
    pub order: String,
    /// The power of the parameter with which the cost beyond that of 0 grows; absent where a cost
    /// is not above that.
    pub power: Option<GrowthPower>,
    /// The least and the most cost beyond that of 0, in percent of it, over all rows and Layouts
    /// that were fitted.
    pub beyond_percent: (f64, f64),
    /// What the order rests on, in a sentence.
    pub because: String,
    /// The smallest value that was fitted: the upper half is.
    pub from: f64,
    /// How many rows were fitted.
    pub points: usize,
    /// Under how many Layouts; natively under none.
    pub layouts: usize,
}

/// A power that was fitted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrowthPower {
    /// The exponent.
    pub exponent: f64,
    /// Its 95 % interval, which holds the exponent of each Layout.
    pub interval: (f64, f64),
}
