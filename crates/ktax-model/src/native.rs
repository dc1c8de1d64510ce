use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Failure, Growth, Signature, Workload};

/// One Run on the running kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeSample {
    /// What the Workload says it did.
    pub signature: Signature,
    /// What was seen: times, faults, counters; the unit is in the name.
    pub values: Signature,
}

/// One row, run several times, each time in a process of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeRow {
    /// What ran.
    pub workload: Workload,
    /// The Runs in order.
    pub samples: Vec<NativeSample>,
    /// Why the Runs ended, if not with the last of them.
    pub failure: Option<Failure>,
    /// The counters that this machine does not have, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub uncounted: BTreeMap<String, String>,
    /// For each column of the table what the Samples say; `None` where they say nothing.
    pub cells: Vec<Option<Summary>>,
}

/// Several values of one quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The middle value, of an even number the mean of the middle two.
    pub median: f64,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
    /// All of them, in the order in which they were measured.
    pub samples: Vec<f64>,
}

/// A column of a native table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeColumn {
    /// The name in files, as workload definitions use it.
    pub name: String,
    /// What stands above it.
    pub heading: String,
    /// The unit of its values; empty for a ratio.
    pub unit: String,
}

/// A Workload run on the running kernel: what `ktax workloads run` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeTable {
    /// The Workload's name.
    pub workload: String,
    /// One line for people.
    pub title: String,
    /// What one operation is.
    pub operation: String,
    /// The words in which the original prints its result.
    pub original: Option<String>,
    /// `uname -r` of the running kernel.
    pub release: String,
    /// The CPU as it calls itself; empty in results of older releases.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cpu: String,
    /// CPUs that may be used.
    pub cpus: usize,
    /// What is derived from the Samples.
    pub columns: Vec<NativeColumn>,
    /// One for each combination of parameters.
    pub rows: Vec<NativeRow>,
    /// How times grow with a size, where the rows say so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growth: Vec<Growth>,
}
