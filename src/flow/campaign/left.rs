//! What of a unit is not measured, and what of that has failed.

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

/// Which of these rows of a unit failed, as `row of subject`, and why.
pub(super) fn failures(
    dir: &CampaignDir,
    unit: &CampaignUnit,
    rows: &[String],
) -> Result<Vec<(String, String)>, Error> {
    let path = dir.run_of(unit);
    let Ok(AnyRunDir::Counts(run_dir)) = AnyRunDir::open(&path) else { return Ok(Vec::new()) };
    let CountsPlan { kernels, subjects, .. } = &run_dir.plan().method;
    let subject = format!("{} {}", kernels.base.name(), subjects.base.boot_line);
    let subject = subject.trim();
    let mut found = Vec::new();
    for row in rows {
        if let Some(failure) = failure(&run_dir, row)? {
            found.push((format!("{row} of {subject}"), failure.to_string()));
        }
    }
    Ok(found)
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
