use super::left::{Left, left};
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
