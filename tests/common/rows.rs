//! Which rows a test of all rows measures, and what they say of costly instructions.

use ktax::model::{Costly, Effect, Row, Workload, metric};
use ktax::plan::{definitions, select_rows};

/// A run of these takes most of a minute, or, of the last, needs what no guest has; `kernel-boot`
/// boots in each run, and has tests of its own.
pub const LONG: [&str; 7] = [
    "kernel-boot",
    "mmap-stress",
    "mmap-stress-short",
    "connect4-long",
    "high-systime",
    "fork-live",
    "lame",
];

/// All workloads but those, the hidden ones, and programs of this machine, which
/// `tests/long/applications.rs` measures.
pub fn workloads() -> Vec<String> {
    let mut definitions = definitions().unwrap();
    definitions.retain(|d| !d.hidden && d.run.is_none() && !LONG.contains(&d.name.as_str()));
    definitions.into_iter().map(|definition| definition.name).collect()
}

/// All rows of these workloads but those that need several CPUs.
pub fn rows_of_one_cpu(names: &[String]) -> Vec<String> {
    let mut rows = select_rows(&definitions().unwrap(), Some(names)).unwrap();
    rows.retain(|row| row.params.get("cpus").is_none_or(|cpus| *cpus == 1));
    rows.into_iter().map(|row| row.row).collect()
}

/// The first row of each of these workloads, with one of so many of its operations.
pub fn short_row_of_each(names: &[String], share: u64) -> Vec<String> {
    let mut rows = select_rows(&definitions().unwrap(), Some(names)).unwrap();
    let workload = |row: &Workload| row.row.split(':').next().unwrap().to_owned();
    rows.dedup_by_key(|row| workload(row));
    short(rows, share)
}

/// These rows, with one of so many of their operations.
pub fn short(rows: Vec<Workload>, share: u64) -> Vec<String> {
    let named = |row: Workload| {
        let separator = if row.row.contains(':') { ',' } else { ':' };
        format!("{}{separator}ops={}", row.row, (row.ops / share).max(1))
    };
    rows.into_iter().map(named).collect()
}

/// The kinds of costly instructions whose Effect is wanted, each with its delta per operation.
pub fn costly_of(row: &Row, is_wanted: impl Fn(&Effect) -> bool) -> Vec<(Costly, f64)> {
    let costly_delta = |effect: &Effect| Some((metric(&effect.metric)?.costly()?, effect.delta));
    row.effects().iter().filter(|effect| is_wanted(effect)).filter_map(costly_delta).collect()
}
