//! Results on the running kernel: workloads in processes of their own, and commands under `ktax
//! stat`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Failure, Growth, Signature, Workload};

/// One Run on the running kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeSample {
    /// Work signature of the Workload.
    pub signature: Signature,
    /// Values that were seen: times, faults, counters; the unit is in the name.
    pub values: Signature,
}

/// One row, run several times, each time in a process of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeRow {
    /// The Workload that ran.
    pub workload: Workload,
    /// The Runs in order.
    pub samples: Vec<NativeSample>,
    /// Reason why the Runs ended, if not with the last of them.
    pub failure: Option<Failure>,
    /// The counters that this machine does not have, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub uncounted: BTreeMap<String, String>,
    /// For each column of the table what the Samples say; `None` where they say nothing.
    pub cells: Vec<Option<Summary>>,
}

/// Several values of one quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeColumn {
    /// The name in files, as workload definitions use it.
    pub name: String,
    /// Heading of the column.
    pub heading: String,
    /// The unit of its values; empty for a ratio.
    pub unit: String,
}

/// A Workload run on the running kernel: what `ktax workloads run` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeTable {
    /// The Workload's name.
    pub workload: String,
    /// One line for people.
    pub title: String,
    /// One operation, in words.
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
    /// Columns that are derived from the Samples.
    pub columns: Vec<NativeColumn>,
    /// One for each combination of parameters.
    pub rows: Vec<NativeRow>,
    /// Growth of times with a size, for rows that show it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growth: Vec<Growth>,
}

/// Something that the kernel counts of a command; a part is of the whole that stands above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatCounter {
    /// The name in files.
    pub name: &'static str,
    /// The name on the screen.
    pub title: &'static str,
    /// The unit of one value in files; the screen has milliseconds for ns.
    pub unit: &'static str,
    /// Whether it is no part of another StatCounter.
    pub headline: bool,
}

const fn whole(name: &'static str, title: &'static str, unit: &'static str) -> StatCounter {
    StatCounter { name, title, unit, headline: true }
}

const fn part(name: &'static str, title: &'static str, unit: &'static str) -> StatCounter {
    StatCounter { name, title, unit, headline: false }
}

/// Every StatCounter of `ktax stat`, in the order of the table.
pub const STAT_COUNTERS: [StatCounter; 15] = [
    whole("task-clock", "task clock (msecs)", "ns"),
    whole("cpu-migrations", "CPU migrations", "migrations"),
    whole("context-switches", "context switches", "switches"),
    whole("page-faults", "page faults", "faults"),
    part("minor-faults", "of them minor", "faults"),
    part("major-faults", "of them major", "faults"),
    whole("cycles", "CPU cycles", "cycles"),
    part("cycles-user", "of them user", "cycles"),
    part("cycles-kernel", "of them kernel", "cycles"),
    whole("instructions", "instructions", "instructions"),
    part("instructions-user", "of them user", "instructions"),
    part("instructions-kernel", "of them kernel", "instructions"),
    whole("cache-references", "cache references", "references"),
    whole("cache-misses", "cache misses", "misses"),
    whole("dtlb-misses", "dTLB misses (loads)", "misses"),
];

/// The StatCounter that no kernel has to be asked for, below all others.
pub const ELAPSED: StatCounter = whole("elapsed", "time elapsed (msecs)", "ns");

/// One value of a StatCounter.
#[derive(Debug, Clone, PartialEq)]
pub enum Count {
    /// The value, in the StatCounter's unit, and for which share of the command's CPU time it was
    /// counted: of less than 100 it is scaled up.
    Seen {
        /// In the StatCounter's unit.
        value: f64,
        /// The share of the command's CPU time.
        counted_percent: f64,
    },
    /// Reason why there is no value, and what to do about it.
    Not(String),
}

/// Counts of one run of a command, by the StatCounter's name.
pub type Counted = BTreeMap<&'static str, Count>;

/// A command, run several times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatCommand {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Ends of the runs that did not end well.
    pub failures: Vec<String>,
}

/// Interval of the median of repeated values, by its order statistics.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MedianInterval {
    /// One of the values.
    pub low: f64,
    /// One of the values.
    pub high: f64,
    /// Coverage of the interval in percent: 95 % at least.
    pub level_percent: f64,
}

/// The values of one StatCounter over the runs of one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeats {
    /// All of them, in the order of the runs.
    pub values: Vec<f64>,
    /// All values from the least to the most.
    pub sorted: Vec<f64>,
    /// Their arithmetic mean.
    pub mean: f64,
    /// The middle value, of an even number the mean of the middle two.
    pub median: f64,
    /// Distance of the largest above the smallest, in percent of that; of two values and more, and
    /// of none that are 0.
    pub spread_percent: Option<f64>,
    /// Interval of the median; `None` below six values.
    pub interval: Option<MedianInterval>,
    /// The least share of the command's CPU time that a value was counted in.
    pub counted_percent: f64,
}

/// Comparison of two commands by the pairs of their runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatChange {
    /// Distance of the second above the first, in percent of it.
    pub percent: f64,
    /// Between what it lies, with 95 % confidence; of six pairs and more.
    pub interval_percent: Option<[f64; 2]>,
}

/// One StatCounter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatRow {
    /// [`StatCounter::name`].
    pub counter: String,
    /// [`StatCounter::unit`].
    pub unit: String,
    /// For each command its values; empty where one of them has none.
    pub repeats: Vec<Repeats>,
    /// Reason why there are no values, and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted: Option<String>,
    /// Distance of the second of two commands above the first; `None` where a value is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<StatChange>,
}

/// Result of `ktax stat`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatTable {
    /// `uname -r` of the running kernel.
    pub release: String,
    /// CPUs that may be used.
    pub cpus: usize,
    /// One; or base and change.
    pub commands: Vec<StatCommand>,
    /// Runs of each command.
    pub runs: usize,
    /// Seed that decides which of a pair went first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Rows of all Counters, in the order of the table.
    pub rows: Vec<StatRow>,
}
