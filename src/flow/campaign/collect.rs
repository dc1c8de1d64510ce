use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{first_names, take_units, unmeasured};
use crate::flow::error::Error;
use crate::flow::session::Session;
use crate::flow::store::copy_store;
use crate::flow::stored::{Stored, compare};
use crate::model::{Comparison, Measurand, Measurement, Sides};
use crate::report::Report;
use crate::rundir::{AnyRunDir, CampaignDir};
use crate::store::{Kept, Store, StoreError};
use crate::text::{counted, shell_path};

/// Results of a campaign.
#[derive(Debug, Default)]
pub struct Collected {
    /// Comparisons of each Subject with the one before it, then the timed experiments.
    pub comparisons: Vec<Comparison>,
    /// Failures in a guest: `row of subject`, and why.
    pub failed: Vec<(String, String)>,
    /// Why files of the directory or its copies are not used.
    pub refused: Vec<String>,
    /// Number of pages that were written.
    pub pages: usize,
}

/// Brings together the results of the shards, from the directory and from copies of it that other
/// machines have used: compares each Subject with the one before it, writes pages, and copies
/// everything to the user's store.
pub fn collect(
    dir: &CampaignDir,
    copies: &[PathBuf],
    session: &Session<'_>,
) -> Result<Collected, Error> {
    let mut all = vec![dir.clone()];
    for copy in copies {
        all.push(open_copy(dir, copy)?);
    }
    let mut collected = Collected::default();
    for copy in &all {
        take_copy(dir, copy, &mut collected)?;
    }
    if let Some(used) = &session.store {
        // The campaign's store may have lost measurements that it had when it was planned.
        for shard in dir.plan().numbers().filter_map(|number| dir.plan().shard(number)) {
            take_units(&used.store, dir, shard.units())?;
        }
    }
    let timed = timed_comparisons(&all)?;
    collected.failed = failed_in_guests(&all, &timed)?;
    collected.comparisons = compare_neighbours(dir)?;
    collected.comparisons.extend(timed.into_values());
    let results = collected.comparisons.iter().map(Report::saved);
    Store::new(dir.store()).put_results(results)?;
    let note = |text: &str| session.observer.note(text);
    collected.pages = Stored::open(&dir.store(), &session.cache, &note)?.site(&dir.site())?;
    if let Some(used) = &session.store {
        collected.refused.extend(copy_store(&dir.store(), used.store.root())?.refused);
    }
    Ok(collected)
}

/// Opens a copy of the directory that another machine has used, and refuses that of another
/// campaign.
fn open_copy(dir: &CampaignDir, path: &Path) -> Result<CampaignDir, Error> {
    let copy = CampaignDir::open(path)?;
    match copy.plan() == dir.plan() {
        true => Ok(copy),
        false => {
            let (path, wanted) = (path.display(), dir.root().display());
            Err(Error::user(format!("{path} is of another campaign"))
                .next(format!("collect copies of {wanted} alone")))
        }
    }
}

/// Takes the campaign's kernels and measurements from a copy. A damaged file is moved aside in the
/// directory itself, and left alone in a copy.
fn take_copy(
    dir: &CampaignDir,
    copy: &CampaignDir,
    collected: &mut Collected,
) -> Result<(), Error> {
    for subject in dir.plan().to_build() {
        if let (None, Some(kernel)) = (dir.kernel(subject)?, copy.kernel(subject)?) {
            dir.write_kernel(subject, &kernel)?;
        }
    }
    let (to, from) = (Store::new(dir.store()), Store::new(copy.store()));
    let is_own = dir.root() == copy.root();
    for measurand in measurands(dir)? {
        let taken = from.get(&measurand).and_then(|found| match found {
            Some(measurement) if !is_own => to.put(&measurement).map(Some),
            _ => Ok(None),
        });
        match taken {
            Ok(Some(Kept::Other(object))) => {
                let row = measurand.workload.row.clone();
                let (object, other) = (shown(&object), shown(&from.path(&measurand)));
                let differs = StoreError::Differs { row, object, other };
                collected.refused.push(differs.to_string());
            }
            Ok(_) => {}
            Err(error @ (StoreError::Damaged { .. } | StoreError::OtherVersion { .. })) => {
                collected.refused.push(error.to_string());
                if is_own {
                    from.move_aside(&from.path(&measurand))?;
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// All measurements that the campaign makes, as far as its kernels are known.
fn measurands(dir: &CampaignDir) -> Result<Vec<Measurand>, Error> {
    let plan = dir.plan();
    let mut all = Vec::new();
    for subject in 0..plan.subjects.len() {
        if let Some(kernel) = dir.kernel(subject)? {
            let rows = 0..plan.workloads.len();
            all.extend(rows.map(|row| plan.measurand(subject, row, &kernel)));
        }
    }
    Ok(all)
}

/// Finished timed experiments by their names.
fn timed_comparisons(all: &[CampaignDir]) -> Result<BTreeMap<String, Comparison>, Error> {
    let mut found = BTreeMap::new();
    for name in &all[0].plan().timed {
        for dir in all {
            let comparison = AnyRunDir::open(&dir.timed(name))?.comparison()?;
            if let (Some(comparison), false) = (comparison, found.contains_key(name)) {
                found.insert(name.clone(), comparison);
            }
        }
    }
    Ok(found)
}

/// Failures in a guest. An error names the rows that are neither measured nor failed, including
/// those that the store had when the campaign was planned.
fn failed_in_guests(
    all: &[CampaignDir],
    timed: &BTreeMap<String, Comparison>,
) -> Result<Vec<(String, String)>, Error> {
    let plan = all[0].plan();
    let (mut failed, mut missing, mut shards) = (Vec::new(), Vec::new(), Vec::new());
    for (number, shard) in plan.numbers().filter_map(|number| Some((number, plan.shard(number)?))) {
        let before = missing.len();
        if let Some(name) = shard.timed().filter(|name| !timed.contains_key(*name)) {
            missing.push(format!("the timed experiment {name}"));
        }
        for unit in shard.units() {
            let left = unmeasured(all, unit)?;
            missing.extend(left.missing);
            failed.extend(left.failed);
        }
        if missing.len() > before {
            shards.push(number);
        }
    }
    match missing.is_empty() {
        true => Ok(failed),
        false => Err(some_missing(&missing, &shards, all[0].root())),
    }
}

fn some_missing(missing: &[String], shards: &[usize], path: &Path) -> Error {
    let are = if missing.len() == 1 { "is" } else { "are" };
    let word = if shards.len() == 1 { "shard" } else { "shards" };
    // A scheduler takes numbers so: `shards 1,2,7`.
    let numbers: Vec<String> = shards.iter().map(usize::to_string).collect();
    let (results, names) = (counted(missing.len(), "result"), first_names(missing));
    Error::user(format!("{results} {are} not measured: {names}")).next(format!(
        "run {word} {} with `ktax campaign run {} --shard N`, then collect again",
        numbers.join(","),
        shell_path(path)
    ))
}

/// Compares each Subject with the one before it, over the rows that both have.
fn compare_neighbours(dir: &CampaignDir) -> Result<Vec<Comparison>, Error> {
    let (plan, store) = (dir.plan(), Store::new(dir.store()));
    let rows_of = |subject: usize| -> Result<Vec<Option<Measurement>>, Error> {
        let Some(kernel) = dir.kernel(subject)? else {
            return Ok(vec![None; plan.workloads.len()]);
        };
        let measured = |row| Ok(store.get(&plan.measurand(subject, row, &kernel))?);
        (0..plan.workloads.len()).map(measured).collect()
    };
    let mut all = Vec::new();
    // Each subject is read once: it is first the change, then the base of the next one.
    let mut before: Option<Vec<Option<Measurement>>> = None;
    for subject in 0..plan.subjects.len() {
        let now = rows_of(subject)?;
        let pairs = before.into_iter().flatten().zip(&now);
        let both = |(base, change): (Option<Measurement>, &Option<Measurement>)| {
            Some(Sides { base: base?, change: change.clone()? })
        };
        let rows: Vec<Sides<Measurement>> = pairs.filter_map(both).collect();
        // Two names of one kernel, or subjects without a common row, are not compared.
        if rows.first().is_some_and(|row| row.base.of != row.change.of) {
            all.push(compare(rows, plan.threshold_percent, &store)?);
        }
        before = Some(now);
    }
    Ok(all)
}
