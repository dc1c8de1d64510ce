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
    pub signature: Signature,
    /// Measured values: times, faults, counters; the unit is in the name.
    pub values: Signature,
}

/// One row, run several times, each time in a process of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeRow {
    pub workload: Workload,
    pub samples: Vec<NativeSample>,
    /// Reason why the Runs ended early.
    pub failure: Option<Failure>,
    /// Counters that this machine lacks, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub uncounted: BTreeMap<String, String>,
    /// Summary of each column of the table; `None` if the Samples have none.
    pub cells: Vec<Option<Summary>>,
}

/// Several values of one quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Middle value, or the mean of the middle two.
    pub median: f64,
    pub least: f64,
    pub most: f64,
    /// All values, in the order in which they were measured.
    pub samples: Vec<f64>,
}

/// A column of a native table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeColumn {
    /// The name in files, as workload definitions use it.
    pub name: String,
    pub heading: String,
    /// The unit of its values; empty for a ratio.
    pub unit: String,
}

/// A Workload run on the running kernel: what `ktax workloads run` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeTable {
    pub workload: String,
    /// One line for people.
    pub title: String,
    pub operation: String,
    /// The words in which the original prints its result.
    pub original: Option<String>,
    /// `uname -r` of the running kernel.
    pub release: String,
    /// CPU name; empty in results of older releases.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cpu: String,
    /// CPUs that may be used.
    pub cpus: usize,
    /// Columns derived from the Samples.
    pub columns: Vec<NativeColumn>,
    /// One for each combination of parameters.
    pub rows: Vec<NativeRow>,
    /// Growth of times with a size, for rows that show it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growth: Vec<Growth>,
}

/// Counter of the kernel for a command; a part belongs to the headline above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatCounter {
    pub name: &'static str,
    /// The name on the screen.
    pub title: &'static str,
    /// Unit of a value in files; the screen has milliseconds for ns.
    pub unit: &'static str,
    /// False if it is part of another StatCounter.
    pub headline: bool,
}

const fn headline(name: &'static str, title: &'static str, unit: &'static str) -> StatCounter {
    StatCounter { name, title, unit, headline: true }
}

const fn part(name: &'static str, title: &'static str, unit: &'static str) -> StatCounter {
    StatCounter { name, title, unit, headline: false }
}

/// All of them, in the order of the table.
pub const STAT_COUNTERS: [StatCounter; 15] = [
    headline("task-clock", "task clock (msecs)", "ns"),
    headline("cpu-migrations", "CPU migrations", "migrations"),
    headline("context-switches", "context switches", "switches"),
    headline("page-faults", "page faults", "faults"),
    part("minor-faults", "of them minor", "faults"),
    part("major-faults", "of them major", "faults"),
    headline("cycles", "CPU cycles", "cycles"),
    part("cycles-user", "of them user", "cycles"),
    part("cycles-kernel", "of them kernel", "cycles"),
    headline("instructions", "instructions", "instructions"),
    part("instructions-user", "of them user", "instructions"),
    part("instructions-kernel", "of them kernel", "instructions"),
    headline("cache-references", "cache references", "references"),
    headline("cache-misses", "cache misses", "misses"),
    headline("dtlb-misses", "dTLB misses (loads)", "misses"),
];

/// StatCounter that needs no help of the kernel, below all others.
pub const ELAPSED: StatCounter = headline("elapsed", "time elapsed (msecs)", "ns");

/// One value of a StatCounter.
#[derive(Debug, Clone, PartialEq)]
pub enum Count {
    /// Value, scaled up if it was counted for less than 100 % of the command's CPU time.
    Seen {
        /// In the StatCounter's unit.
        value: f64,
        /// Share of the command's CPU time.
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
    pub low: f64,
    pub high: f64,
    /// Coverage in percent: 95 % at least.
    pub level_percent: f64,
}

/// The values of one StatCounter over the runs of one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeats {
    /// In the order of the runs.
    pub values: Vec<f64>,
    /// In ascending order.
    pub sorted: Vec<f64>,
    pub mean: f64,
    /// Middle value, or the mean of the middle two.
    pub median: f64,
    /// Distance of the largest value above the smallest, in percent of that; `None` for fewer than
    /// two values, and if one is 0.
    pub spread_percent: Option<f64>,
    /// Interval of the median; `None` below six values.
    pub interval: Option<MedianInterval>,
    /// Smallest share of the command's CPU time in which a value was counted.
    pub counted_percent: f64,
}

/// Comparison of two commands by the pairs of their runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatChange {
    /// Distance of the second above the first, in percent of it.
    pub percent: f64,
    /// 95 % confidence interval; `None` below six pairs.
    pub interval_percent: Option<[f64; 2]>,
}

/// Row for one StatCounter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatRow {
    /// [`StatCounter::name`].
    pub counter: String,
    /// [`StatCounter::unit`].
    pub unit: String,
    /// Values of each command; empty if one of them has none.
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
    /// One command; or base and change.
    pub commands: Vec<StatCommand>,
    /// Runs of each command.
    pub runs: usize,
    /// Seed that decides which of a pair went first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// In the order of the table.
    pub rows: Vec<StatRow>,
}
