use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Something that the kernel counts of a command; a part is of the whole that stands above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// The name in files.
    pub name: &'static str,
    /// The name on the screen.
    pub title: &'static str,
    /// The unit of one value in files; the screen has milliseconds for ns.
    pub unit: &'static str,
    /// Whether it is no part of another one.
    pub headline: bool,
}

const fn whole(name: &'static str, title: &'static str, unit: &'static str) -> Counter {
    Counter { name, title, unit, headline: true }
}

const fn part(name: &'static str, title: &'static str, unit: &'static str) -> Counter {
    Counter { name, title, unit, headline: false }
}

/// Every Counter of `ktax stat`, in the order of the table.
pub const COUNTERS: [Counter; 15] = [
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

/// The Counter that no kernel has to be asked for, below all others.
pub const ELAPSED: Counter = whole("elapsed", "time elapsed (msecs)", "ns");

/// One value of a Counter.
#[derive(Debug, Clone, PartialEq)]
pub enum Count {
    /// The value, in the Counter's unit, and for which share of the command's CPU time it was
    /// counted: of less than 100 it is scaled up.
    Seen {
        /// In the Counter's unit.
        value: f64,
        /// The share of the command's CPU time.
        counted_percent: f64,
    },
    /// Why there is none, and what to do about it.
    Not(String),
}

/// What was counted in one run of a command, by the Counter's name.
pub type Counted = BTreeMap<&'static str, Count>;

/// A command, run several times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatCommand {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// How those runs ended that did not end well.
    pub failures: Vec<String>,
}

/// Where the median of what is repeated lies, by its order statistics.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MedianInterval {
    /// One of the values.
    pub low: f64,
    /// One of the values.
    pub high: f64,
    /// How often such an interval holds the median: 95 % at least.
    pub level_percent: f64,
}

/// The values of one Counter over the runs of one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeats {
    /// All of them, in the order of the runs.
    pub values: Vec<f64>,
    /// The same from the least to the most.
    pub sorted: Vec<f64>,
    /// Their arithmetic mean.
    pub mean: f64,
    /// The middle value, of an even number the mean of the middle two.
    pub median: f64,
    /// How far the largest is above the smallest, in percent of that; of two values and more, and
    /// of none that are 0.
    pub spread_percent: Option<f64>,
    /// Where the median lies; of six values and more.
    pub interval: Option<MedianInterval>,
    /// The least share of the command's CPU time that a value was counted in.
    pub counted_percent: f64,
}

/// What the pairs of two commands' runs say.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatChange {
    /// How far the second is above the first, in percent of it.
    pub percent: f64,
    /// Between what it lies, with 95 % confidence; of six pairs and more.
    pub interval_percent: Option<[f64; 2]>,
}

/// One Counter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatRow {
    /// [`Counter::name`].
    pub counter: String,
    /// [`Counter::unit`].
    pub unit: String,
    /// For each command its values; empty where one of them has none.
    pub repeats: Vec<Repeats>,
    /// Why there are none, and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted: Option<String>,
    /// Of two commands, how far the second is above the first; nothing where a value is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<StatChange>,
}

/// What `ktax stat` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// What says which of a pair went first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Of every Counter, in the order of the table.
    pub rows: Vec<StatRow>,
}
