use std::collections::BTreeMap;
use std::time::Duration;

/// Where the time went, in real time summed over all VMs. It is shown, never stored: results have
/// no times in them.
#[derive(Debug, Clone, Default)]
pub struct Timing {
    /// Boots, made or found in the cache.
    pub boots: usize,
    /// Time in them.
    pub boot_time: Duration,
    /// Number of Runs and time in them by row.
    pub runs: BTreeMap<String, (usize, Duration)>,
}

impl Timing {
    pub(super) fn boot(&mut self, time: Duration) {
        self.boots += 1;
        self.boot_time += time;
    }

    pub(super) fn run(&mut self, row: &str, time: Duration) {
        let entry = self.runs.entry(row.to_owned()).or_default();
        entry.0 += 1;
        entry.1 += time;
    }

    pub(super) fn add(&mut self, other: &Timing) {
        self.boots += other.boots;
        self.boot_time += other.boot_time;
        for (row, (count, time)) in &other.runs {
            let entry = self.runs.entry(row.clone()).or_default();
            entry.0 += count;
            entry.1 += *time;
        }
    }

    /// Time in all Runs.
    pub fn run_time(&self) -> Duration {
        self.runs.values().map(|(_, time)| *time).sum()
    }
}
