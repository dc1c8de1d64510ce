//! A campaign measures many Subjects over the same rows, in shards that any scheduler runs on any
//! machine. The machines share one directory, or have copies of it.

mod collect;
mod plan;
mod shard;
mod slurm;

use std::collections::BTreeMap;

use super::error::Error;
use crate::model::{Blame, CampaignUnit, CountsPlan, Failure, Identity, Outcome, Run, Shard};
use crate::rundir::{AnyRunDir, CampaignDir, RunDir};
use crate::store::Store;
use crate::text::escape;

pub use collect::{Collected, collect};
pub use plan::plan;
pub use shard::{ShardEnd, build, run};
pub use slurm::write_slurm;

/// First names of rows, and the number of the others.
pub fn first_names(rows: &[String]) -> String {
    /// This many names fit into two lines of a terminal.
    const SHOWN: usize = 4;
    let names = rows.iter().take(SHOWN).map(|row| escape(row)).collect::<Vec<_>>().join(", ");
    match rows.len().saturating_sub(SHOWN) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

/// Names of the rows of a unit that the campaign's store does not have.
fn missing_rows(dir: &CampaignDir, unit: &CampaignUnit, kernel: &Identity) -> Vec<String> {
    let store = Store::new(dir.store());
    let is_missing = |row: &&usize| {
        let measurand = dir.plan().measurand(unit.subject, **row, kernel);
        !store.path(&measurand).exists()
    };
    let rows = unit.rows.iter().filter(is_missing);
    rows.map(|row| dir.plan().workloads[*row].row.clone()).collect()
}

/// Names of the rows of a unit that are not measured; all of them if its kernel is not built.
fn unmeasured_rows(dir: &CampaignDir, unit: &CampaignUnit) -> Result<Vec<String>, Error> {
    Ok(match dir.kernel(unit.subject)? {
        Some(kernel) => missing_rows(dir, unit, &kernel),
        None => unit.rows.iter().map(|row| dir.plan().workloads[*row].row.clone()).collect(),
    })
}

/// Name of a row in messages: `row of kernel and boot line`.
fn row_name(dir: &CampaignDir, unit: &CampaignUnit, row: &str) -> Result<String, Error> {
    let subject = &dir.plan().subjects[unit.subject].subject;
    let kernel = match dir.kernel(unit.subject)? {
        Some(kernel) => kernel.name().to_owned(),
        None => subject.kernel.clone(),
    };
    Ok(format!("{row} of {kernel} {}", subject.boot_line).trim_end().to_owned())
}

/// Name and failure of each of these rows that failed in a guest.
fn row_failures(
    dir: &CampaignDir,
    unit: &CampaignUnit,
    rows: &[String],
) -> Result<Vec<(String, String)>, Error> {
    let path = dir.run_of(unit);
    let Ok(AnyRunDir::Counts(run_dir)) = AnyRunDir::open(&path) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for row in rows {
        if let Some(failure) = first_failure(&run_dir, row)? {
            found.push((row_name(dir, unit, row)?, failure.to_string()));
        }
    }
    Ok(found)
}

/// Rows of a unit that are not measured: those that are missing, and those that failed.
#[derive(Debug, Default)]
struct UnmeasuredRows {
    /// Names of the missing rows.
    pub missing: Vec<String>,
    /// Names of the rows that failed on any machine, and why.
    pub failed: Vec<(String, String)>,
}

/// Rows of a unit that are not measured, in a campaign and its copies.
fn unmeasured(all: &[CampaignDir], unit: &CampaignUnit) -> Result<UnmeasuredRows, Error> {
    let dir = &all[0];
    let rows = unmeasured_rows(dir, unit)?;
    let mut failed = BTreeMap::new();
    for copy in all {
        for (row, failure) in row_failures(copy, unit, &rows)? {
            failed.entry(row).or_insert(failure);
        }
    }
    let mut missing = Vec::new();
    for row in &rows {
        let name = row_name(dir, unit, row)?;
        if !failed.contains_key(&name) {
            missing.push(name);
        }
    }
    Ok(UnmeasuredRows { missing, failed: failed.into_iter().collect() })
}

/// Copies measurements of these units from a user's store into the campaign's store. Unreadable
/// ones are skipped, and so measured again.
fn take_units(from: &Store, dir: &CampaignDir, units: &[CampaignUnit]) -> Result<(), Error> {
    let to = Store::new(dir.store());
    for unit in units {
        let Some(kernel) = dir.kernel(unit.subject)? else { continue };
        let rows = unit.rows.iter();
        for measurand in rows.map(|row| dir.plan().measurand(unit.subject, *row, &kernel)) {
            if to.path(&measurand).exists() {
                continue;
            }
            if let Ok(Some(measurement)) = from.get(&measurand) {
                to.put(&measurement)?;
            }
        }
    }
    Ok(())
}

/// First failure of a row in a guest. Failures of the host are skipped, because the row is then
/// measured again.
fn first_failure(dir: &RunDir<CountsPlan>, row: &str) -> Result<Option<Failure>, Error> {
    for step in &dir.plan().method.steps {
        let run_failure = dir.run(step, row)?.and_then(|run: Run| match run.outcome {
            Outcome::Failed(failure) => Some(failure),
            Outcome::Measured(_) => None,
        });
        let boot_failure = dir.boot(step)?.and_then(|boot| boot.failure);
        let failure = boot_failure.or(run_failure);
        if let Some(failure) = failure.filter(|failure| failure.blame() != Blame::Host) {
            return Ok(Some(failure));
        }
    }
    Ok(None)
}

/// Progress of a shard.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShardStatus {
    /// Number of the shard, from 0.
    pub number: usize,
    /// Number of results: rows of Subjects, or one timed experiment.
    pub total: usize,
    /// Names of the rows that are not measured and have not failed.
    pub missing: Vec<String>,
    /// Failures in a guest: `row of subject`, and why.
    pub failed: Vec<(String, String)>,
    /// Subjects whose kernels are yet to be built.
    pub unbuilt: Vec<usize>,
    /// Estimated seconds that the missing rows take on one CPU; 0 for timed experiments.
    pub seconds: f64,
}

/// Progress of all shards.
pub fn status(dir: &CampaignDir) -> Result<Vec<ShardStatus>, Error> {
    let shards = dir.plan().shards.iter().enumerate();
    let mut all: Vec<ShardStatus> = shards
        .map(|(number, shard)| shard_status(dir, number, shard))
        .collect::<Result<_, Error>>()?;
    // Planned rows of the store need no work unless they are lost.
    if let Some(known) = dir.plan().shard(all.len()) {
        let lost = shard_status(dir, all.len(), &known)?;
        if !lost.missing.is_empty() || !lost.failed.is_empty() {
            all.push(lost);
        }
    }
    Ok(all)
}

fn shard_status(dir: &CampaignDir, number: usize, shard: &Shard) -> Result<ShardStatus, Error> {
    let mut status = ShardStatus { number, ..ShardStatus::default() };
    match shard {
        Shard::Times(name) => {
            let is_there = AnyRunDir::open(&dir.timed(name))?.comparison()?.is_some();
            let named = Some(format!("the timed experiment {name}")).filter(|_| !is_there);
            (status.total, status.missing) = (1, named.into_iter().collect());
        }
        Shard::Counts(units) => {
            for unit in units {
                add(&mut status, dir, unit)?;
            }
        }
    }
    Ok(status)
}

fn add(status: &mut ShardStatus, dir: &CampaignDir, unit: &CampaignUnit) -> Result<(), Error> {
    status.total += unit.rows.len();
    if dir.kernel(unit.subject)?.is_none() {
        status.unbuilt.push(unit.subject);
    }
    let UnmeasuredRows { missing, failed } = unmeasured(std::slice::from_ref(dir), unit)?;
    status.seconds += unit.seconds * missing.len() as f64 / unit.rows.len() as f64;
    status.missing.extend(missing);
    status.failed.extend(failed);
    Ok(())
}
