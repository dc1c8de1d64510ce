//! Whether what was estimated is what was measured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::LowHigh;

/// A row that was both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidatedRow {
    /// Its name.
    pub row: String,
    /// What the change should add, in percent of the base.
    pub predicted_percent: LowHigh,
    /// What it added, likewise.
    pub measured_percent: f64,
    /// Where that lies; of no end that is not known.
    pub measured_interval: [Option<f64>; 2],
    /// Whether what was measured lies in what was predicted.
    pub is_covered: bool,
    /// Metrics that changed and that no cost is known of, per operation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub without: BTreeMap<String, f64>,
}

impl ValidatedRow {
    /// The middle of what was predicted.
    pub fn predicted(&self) -> f64 {
        self.predicted_percent.iter().sum::<f64>() / 2.0
    }
}

/// So many of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// These.
    pub of_them: usize,
    /// All.
    pub all: usize,
}

/// What `ktax validate` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    /// What was compared.
    pub title: String,
    /// The machine's file.
    pub machine: String,
    /// The CPU that it was measured on.
    pub cpu: String,
    /// The CPU that the times are of.
    pub timed_cpu: String,
    /// Those that failed come first, the worst before all.
    pub rows: Vec<ValidatedRow>,
    /// Why no row of the times can be judged, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<String>,
    /// Rows that one of both has not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// In what the subjects that were counted and timed differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<String>,
    /// Rows whose measured change lies in what was predicted.
    pub covered: Share,
    /// Rows whose sign was predicted, of those that changed by 5 % or more.
    pub signs: Share,
    /// Spearman's rank correlation; absent of fewer than three rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank_correlation: Option<f64>,
    /// By how many percent half of the rows are predicted wrong, or more.
    pub median_error_percent: f64,
}
