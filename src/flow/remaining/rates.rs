use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A boot and a run of which nothing is known, in seconds.
const BOOT_S: f64 = 6.0;
const RUN_S: f64 = 0.4;

/// What is known counts as so many new measurements: it gives way to what this machine does now.
const WEIGHT: f64 = 2.0;

/// How many seconds each piece of work takes, by its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rates {
    /// A boot, by the engine.
    pub boots: BTreeMap<String, f64>,
    /// A run, by the engine and the row.
    pub runs: BTreeMap<String, f64>,
    /// A byte of a download, or a file that is unpacked, kept or compiled, by the kind of task.
    pub tasks: BTreeMap<String, f64>,
}

/// The seconds of pieces of one kind that ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    pub count: f64,
    pub seconds: f64,
}

impl Seen {
    pub fn add(&mut self, time: Duration) {
        self.count += 1.0;
        self.seconds += time.as_secs_f64();
    }

    pub fn mean(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.seconds / self.count)
    }

    /// The mean of these and of what was known before.
    pub fn with(self, known: Option<f64>, otherwise: f64) -> f64 {
        match known {
            Some(known) => (known * WEIGHT + self.seconds) / (WEIGHT + self.count),
            None => self.mean().unwrap_or(otherwise),
        }
    }
}

impl Rates {
    /// The name of a row's rate.
    pub fn row(engine: &str, row: &str) -> String {
        format!("{engine}/{row}")
    }

    /// Seconds of a boot.
    pub(super) fn boot(&self, engine: &str, seen: Seen) -> f64 {
        seen.with(self.boots.get(engine).copied(), BOOT_S)
    }

    /// Seconds of a run; of a row that never ran, those of the others.
    pub(super) fn run(&self, engine: &str, row: &str, seen: Seen, others: Seen) -> f64 {
        let known = self.runs.get(&Rates::row(engine, row)).copied();
        seen.with(known, others.mean().unwrap_or(RUN_S))
    }

    /// Seconds of a run that was learned.
    pub fn learned(&self, engine: &str, row: &str) -> Option<f64> {
        self.runs.get(&Rates::row(engine, row)).copied()
    }

    /// Whether anything is known of that engine.
    pub fn knows(&self, engine: &str) -> bool {
        self.boots.contains_key(engine)
    }
}
