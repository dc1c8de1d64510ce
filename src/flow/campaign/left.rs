//! What of a unit is not measured, and what of that has failed.

use std::collections::BTreeMap;

use crate::flow::error::Error;
use crate::model::{Blame, CampaignUnit, CountsPlan, Failure, Identity, Outcome, Run};
use crate::rundir::{AnyRunDir, CampaignDir, RunDir, RunDirError};
use crate::store::Store;

/// The rows of a unit that the campaign's store has not.
pub(super) fn missing(dir: &CampaignDir, unit: &CampaignUnit, kernel: &Identity) -> Vec<String> {
    let store = Store::new(dir.store());
    let is_missing = |row: &&usize| {
        let of = dir.plan().measurand(unit.subject, **row, kernel);
        !store.path(&of).exists()
    };
    let rows = unit.rows.iter().filter(is_missing);
    rows.map(|row| dir.plan().workloads[*row].row.clone()).collect()
}

/// The rows of a unit that are not measured.
pub(super) fn left_of(dir: &CampaignDir, unit: &CampaignUnit) -> Result<Vec<String>, Error> {
    Ok(match dir.kernel(unit.subject)? {
        Some(kernel) => missing(dir, unit, &kernel),
        None => unit.rows.iter().map(|row| dir.plan().workloads[*row].row.clone()).collect(),
    })
}

/// A row of a unit as it is named: `row of kernel and boot line`.
pub(super) fn named(dir: &CampaignDir, unit: &CampaignUnit, row: &str) -> Result<String, Error> {
    let subject = &dir.plan().subjects[unit.subject].subject;
    let kernel = match dir.kernel(unit.subject)? {
        Some(kernel) => kernel.name().to_owned(),
        None => subject.kernel.clone(),
    };
    Ok(format!("{row} of {kernel} {}", subject.boot_line).trim_end().to_owned())
}

/// Which of these rows of a unit failed, each with its name and why.
pub(super) fn failures(
    dir: &CampaignDir,
    unit: &CampaignUnit,
    rows: &[String],
) -> Result<Vec<(String, String)>, Error> {
    let path = dir.run_of(unit);
    let Ok(AnyRunDir::Counts(run_dir)) = AnyRunDir::open(&path) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for row in rows {
        if let Some(failure) = failure(&run_dir, row)? {
            found.push((named(dir, unit, row)?, failure.to_string()));
        }
    }
    Ok(found)
}

/// What of a unit is neither measured nor failed, and what failed.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// The names of rows that are missing.
    pub missing: Vec<String>,
    /// The names of rows that failed on any machine, and why.
    pub failed: Vec<(String, String)>,
}

/// What of a unit is left, in a campaign and its copies.
pub(super) fn left(all: &[CampaignDir], unit: &CampaignUnit) -> Result<Left, Error> {
    let dir = &all[0];
    let rows = left_of(dir, unit)?;
    let mut failed = BTreeMap::new();
    for copy in all {
        for (row, failure) in failures(copy, unit, &rows)? {
            failed.entry(row).or_insert(failure);
        }
    }
    let mut missing = Vec::new();
    for row in &rows {
        let name = named(dir, unit, row)?;
        if !failed.contains_key(&name) {
            missing.push(name);
        }
    }
    Ok(Left { missing, failed: failed.into_iter().collect() })
}

/// Takes into the campaign's store what a user's store has of these units. What cannot be read
/// there is measured.
pub(super) fn take_units(
    from: &Store,
    dir: &CampaignDir,
    units: &[CampaignUnit],
) -> Result<(), Error> {
    let to = Store::new(dir.store());
    for unit in units {
        let Some(kernel) = dir.kernel(unit.subject)? else { continue };
        let rows = unit.rows.iter();
        for of in rows.map(|row| dir.plan().measurand(unit.subject, *row, &kernel)) {
            if to.path(&of).exists() {
                continue;
            }
            if let Ok(Some(measurement)) = from.get(&of) {
                to.put(&measurement)?;
            }
        }
    }
    Ok(())
}

/// The first failure of a row in a guest. One of the host says nothing of the row: it is measured
/// again.
fn failure(dir: &RunDir<CountsPlan>, row: &str) -> Result<Option<Failure>, RunDirError> {
    for step in &dir.plan().method.steps {
        let of_run = dir.run(step, row)?.and_then(|run: Run| match run.outcome {
            Outcome::Failed(failure) => Some(failure),
            Outcome::Measured(_) => None,
        });
        let of_boot = dir.boot(step)?.and_then(|boot| boot.failure);
        let failure = of_boot.or(of_run);
        if let Some(failure) = failure.filter(|failure| failure.blame() != Blame::Host) {
            return Ok(Some(failure));
        }
    }
    Ok(None)
}
