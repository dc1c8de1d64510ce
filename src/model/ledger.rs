use serde::{Deserialize, Serialize};

use super::{Key, Verdict, Warning};

/// What each of several additions to one base costs, and all of them together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerTable {
    /// One line for people.
    pub title: String,
    /// What the counts compare with.
    pub key: Key,
    /// Layouts per Side.
    pub layouts: usize,
    /// The base's Kernel, and what it has beside its name.
    pub base: (String, String),
    /// One for each Workload.
    pub rows: Vec<LedgerRow>,
    /// Additions that could not be built, and why.
    pub not_built: Vec<(String, String)>,
    /// What to know of an addition.
    pub warnings: Vec<(String, Warning)>,
}

/// One Workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerRow {
    /// The row's name.
    pub row: String,
    /// Instructions of one operation without any addition.
    pub base: f64,
    /// The additions, the most expensive first.
    pub entries: Vec<LedgerEntry>,
    /// All of them at once.
    pub together: Option<LedgerEntry>,
    /// What all of them cost beyond the sum of their costs, if that is more than noise.
    pub interaction: Option<f64>,
}

/// What one addition costs a Workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerEntry {
    /// The addition.
    pub name: String,
    /// Instructions per operation.
    pub delta: f64,
    /// In percent of the base.
    pub percent: Option<f64>,
    /// The smallest delta that would have been slower or faster, as an Effect has it.
    pub detectable: Option<f64>,
    /// The row's.
    pub verdict: Verdict,
    /// The Metric whose Verdict that is.
    pub decided_by: String,
}
