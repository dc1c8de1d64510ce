use super::left::{failures, left_of};
use crate::flow::error::Error;
use crate::model::{CampaignUnit, Shard};
use crate::rundir::{AnyRunDir, CampaignDir};

/// How far a shard is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShardStatus {
    /// Its number, from 0.
    pub number: usize,
    /// What it has: rows of Subjects, or one timed experiment.
    pub of: usize,
    /// What of it is not measured, and has not failed.
    pub missing: usize,
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
    shards.map(|(number, shard)| of_shard(dir, number, shard)).collect()
}

fn of_shard(dir: &CampaignDir, number: usize, shard: &Shard) -> Result<ShardStatus, Error> {
    let mut status = ShardStatus { number, ..ShardStatus::default() };
    match shard {
        Shard::Times(name) => {
            let is_there = AnyRunDir::open(&dir.timed(name))?.comparison()?.is_some();
            (status.of, status.missing) = (1, usize::from(!is_there));
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
    let left = left_of(dir, unit)?;
    let failed = failures(dir, unit, &left)?;
    let missing = left.len() - failed.len();
    status.missing += missing;
    status.seconds += unit.seconds * missing as f64 / unit.rows.len() as f64;
    status.failed.extend(failed);
    Ok(())
}
