//! A campaign: many Subjects over the same rows, in shards that any scheduler runs on any machine.
//! A directory that the machines share, or have copies of, is all that they have in common.

mod collect;
mod plan;
mod shard;
mod slurm;

use std::collections::BTreeMap;

use thiserror::Error;

use super::error::Error;
use crate::model::{Blame, CampaignUnit, CountsPlan, Failure, Identity, Outcome, Run, Shard};
use crate::rundir::{AnyRunDir, CampaignDir, RunDir, RunDirError};
use crate::store::Store;
use crate::text::{counted, escape, shell_path};

pub use collect::{Collected, collect};
pub use plan::plan;
pub use shard::{ShardEnd, build, run};
pub use slurm::write_slurm;

/// Why a campaign, or a shard of it, cannot go on.
#[derive(Debug, Error, PartialEq, Eq)]
// The messages say what the fields are.
#[allow(missing_docs)]
pub enum CampaignError {
    #[error(
        "{path} was planned for QEMU {planned} and the ktax of that time, and this machine has \
         QEMU {found}: counts would not compare; nothing was booted. Give it the same package, or \
         run the shard on another machine"
    )]
    OtherMachine { path: String, planned: String, found: String },
    #[error(
        "there is no shard {number}; the campaign has {}", numbered(*.shards)
    )]
    NoShard { number: usize, shards: usize },
    #[error("subject {number} is not built from source; `ktax campaign status` lists the others")]
    NotBuilt { number: usize },
    #[error(
        "the kernel of subject {number}, {kernel}, is not built yet; build it with `ktax campaign \
         run {} --build {number}`",
        shell_path(.path)
    )]
    Unbuilt { number: usize, kernel: String, path: String },
    #[error(
        "other work of a campaign runs on this machine, and times are measured alone; try again \
         when it has ended"
    )]
    NotAlone,
    #[error("{path} is measured by another machine; try again when it has ended")]
    InUse { path: String },
    #[error("{} failed because of this machine; {path} says why. Run the shard again",
        counted(*.rows, "row"))]
    HostFailed { rows: usize, path: String },
    #[error(
        "{name} is {is}; remove it from `timed`, which takes timed experiments without a sweep"
    )]
    NotTimed { name: String, is: &'static str },
    #[error("two timed experiments are called {name}; rename one of the files")]
    TwiceTimed { name: String },
    #[error("{path} is of another campaign; collect copies of {wanted} alone")]
    OtherCampaign { path: String, wanted: String },
    #[error(
        "{} not measured: {}; run {} with `ktax campaign run {} --shard N`, then collect again",
        are_missing(missing.len()),
        some(.missing),
        listed(.shards),
        shell_path(.path)
    )]
    Missing { missing: Vec<String>, shards: Vec<usize>, path: String },
}

impl CampaignError {
    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        match self {
            CampaignError::NotAlone
            | CampaignError::InUse { .. }
            | CampaignError::HostFailed { .. } => Blame::Host,
            _ => Blame::User,
        }
    }
}

fn numbered(shards: usize) -> String {
    match shards {
        0 => "none: all is measured".to_owned(),
        1 => "one, 0".to_owned(),
        _ => format!("0 to {}", shards - 1),
    }
}

fn are_missing(missing: usize) -> String {
    let are = if missing == 1 { "is" } else { "are" };
    format!("{} {are}", counted(missing, "result"))
}

/// The first names of rows, and how many more there are.
pub fn some(rows: &[String]) -> String {
    /// As many fit into two lines of a terminal.
    const SHOWN: usize = 4;
    let names = rows.iter().take(SHOWN).map(|row| escape(row)).collect::<Vec<_>>().join(", ");
    match rows.len().saturating_sub(SHOWN) {
        0 => names,
        more => format!("{names} and {more} more"),
    }
}

/// `shards 1, 2 and 7`, as a scheduler takes them.
fn listed(shards: &[usize]) -> String {
    let all: Vec<String> = shards.iter().map(usize::to_string).collect();
    let word = if all.len() == 1 { "shard" } else { "shards" };
    format!("{word} {}", all.join(","))
}

/// The rows of a unit that the campaign's store has not.
fn missing(dir: &CampaignDir, unit: &CampaignUnit, kernel: &Identity) -> Vec<String> {
    let store = Store::new(dir.store());
    let is_missing = |row: &&usize| {
        let of = dir.plan().measurand(unit.subject, **row, kernel);
        !store.path(&of).exists()
    };
    let rows = unit.rows.iter().filter(is_missing);
    rows.map(|row| dir.plan().workloads[*row].row.clone()).collect()
}

/// The rows of a unit that are not measured.
fn left_of(dir: &CampaignDir, unit: &CampaignUnit) -> Result<Vec<String>, Error> {
    Ok(match dir.kernel(unit.subject)? {
        Some(kernel) => missing(dir, unit, &kernel),
        None => unit.rows.iter().map(|row| dir.plan().workloads[*row].row.clone()).collect(),
    })
}

/// A row of a unit as it is named: `row of kernel and boot line`.
fn named(dir: &CampaignDir, unit: &CampaignUnit, row: &str) -> Result<String, Error> {
    let subject = &dir.plan().subjects[unit.subject].subject;
    let kernel = match dir.kernel(unit.subject)? {
        Some(kernel) => kernel.name().to_owned(),
        None => subject.kernel.clone(),
    };
    Ok(format!("{row} of {kernel} {}", subject.boot_line).trim_end().to_owned())
}

/// Which of these rows of a unit failed, each with its name and why.
fn failures(
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
struct Left {
    /// The names of rows that are missing.
    pub missing: Vec<String>,
    /// The names of rows that failed on any machine, and why.
    pub failed: Vec<(String, String)>,
}

/// What of a unit is left, in a campaign and its copies.
fn left(all: &[CampaignDir], unit: &CampaignUnit) -> Result<Left, Error> {
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
fn take_units(from: &Store, dir: &CampaignDir, units: &[CampaignUnit]) -> Result<(), Error> {
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

/// How far a shard is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShardStatus {
    /// Its number, from 0.
    pub number: usize,
    /// What it has: rows of Subjects, or one timed experiment.
    pub of: usize,
    /// What of it is not measured, and has not failed, by the names of its rows.
    pub missing: Vec<String>,
    /// What failed in a guest, as `row of subject`, and why.
    pub failed: Vec<(String, String)>,
    /// Subjects whose kernels are yet to be built.
    pub unbuilt: Vec<usize>,
    /// How long what is missing takes on one CPU, seconds; of times nobody knows.
    pub seconds: f64,
}

/// How far all shards are.
///
/// # Errors
/// The directory cannot be read.
pub fn status(dir: &CampaignDir) -> Result<Vec<ShardStatus>, Error> {
    let shards = dir.plan().shards.iter().enumerate();
    let mut all: Vec<ShardStatus> =
        shards.map(|(number, shard)| of_shard(dir, number, shard)).collect::<Result<_, Error>>()?;
    // What the store had needs no work, unless it is lost.
    if let Some(known) = dir.plan().shard(all.len()) {
        let lost = of_shard(dir, all.len(), &known)?;
        if !lost.missing.is_empty() || !lost.failed.is_empty() {
            all.push(lost);
        }
    }
    Ok(all)
}

fn of_shard(dir: &CampaignDir, number: usize, shard: &Shard) -> Result<ShardStatus, Error> {
    let mut status = ShardStatus { number, ..ShardStatus::default() };
    match shard {
        Shard::Times(name) => {
            let is_there = AnyRunDir::open(&dir.timed(name))?.comparison()?.is_some();
            let named = Some(format!("the timed experiment {name}")).filter(|_| !is_there);
            (status.of, status.missing) = (1, named.into_iter().collect());
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
    status.of += unit.rows.len();
    if dir.kernel(unit.subject)?.is_none() {
        status.unbuilt.push(unit.subject);
    }
    let Left { missing, failed } = left(std::slice::from_ref(dir), unit)?;
    status.seconds += unit.seconds * missing.len() as f64 / unit.rows.len() as f64;
    status.missing.extend(missing);
    status.failed.extend(failed);
    Ok(())
}
