//! Campaigns measure many Subjects over the same rows, in shards that any scheduler may run on any
//! machine. The machines share the campaign's directory, or have copies of it.

mod shard;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Error;
use super::remaining::{Rates, RemainingRuns, Work, stored_rates};
use super::session::Session;
use super::store::copy_store;
use super::stored::{Stored, compare};
use super::{experiment_text, phases};
use crate::engine::Measures;
use crate::engine::qemu::Qemu;
use crate::kernel::{self, Kernel, KernelSpec};
use crate::model::{
    Blame, CampaignPlan, CampaignSubject, CampaignUnit, Comparison, CountsPlan, FORMAT, Failure,
    Identity, Key, Machine, Measurand, Measurement, Outcome, PlanMethod, Run, Shard, Sides,
};
use crate::plan::{
    self, Campaign, CountsExperiment, Experiment, ExperimentFile, ExperimentMethod, SubjectCosts,
};
use crate::report::Report;
use crate::rundir::{AnyRunDir, CampaignDir, RunDir, check_free};
use crate::store::{PutOutcome, Store, StoreError};
use crate::text::{counted, escape, shell_path};

pub use shard::{ShardEnd, build, run, write_slurm};

/// Plans a campaign in a new directory: gets the kernels that are not built from source, takes
/// measurements from the store, and divides the missing ones into `shards`, or into shards of about
/// ten minutes.
pub fn plan(
    campaign: &Campaign,
    out: &Path,
    shards: Option<usize>,
    session: &Session<'_>,
) -> Result<CampaignDir, Error> {
    check_free(out)?;
    for experiment in &campaign.subjects {
        session.check_names(&ExperimentMethod::Counts(experiment.method.clone()))?;
    }
    let qemu = Qemu::find(session.qemu.as_deref())?;
    let mut planned = plan_without_subjects(campaign, &qemu)?;
    let timed = timed_plans(campaign, session)?;
    let mut kernels = Vec::new();
    for experiment in &campaign.subjects {
        kernels.push(kernel_unless_built(experiment, session)?);
    }
    let subjects = campaign.subjects.iter().zip(&kernels);
    let subject = |(experiment, kernel): (&Experiment<CountsExperiment>, &Option<Kernel>)| {
        let kernel = kernel.as_ref().map(|kernel| kernel.identity.clone());
        CampaignSubject { subject: experiment.method.asked.subjects.base.clone(), kernel }
    };
    planned.subjects = subjects.map(subject).collect();
    let stored = stored_measurements(&planned, session)?;
    let costs = row_costs(&planned, &stored);
    let counted = plan::divide(&costs, shards).into_iter().map(Shard::Counts);
    planned.timed = timed.iter().map(|(name, _)| name.clone()).collect();
    // Timed shards come last, because no other work may run on the machine with them.
    planned.shards = counted.chain(planned.timed.iter().cloned().map(Shard::Times)).collect();
    write_directory(out, planned, &stored, &kernels, timed)
}

/// Plan without its Subjects and shards.
fn plan_without_subjects(campaign: &Campaign, qemu: &Qemu) -> Result<CampaignPlan, Error> {
    let first = campaign.subjects.first();
    let default = Machine::default();
    let machine = first.map_or(default, |experiment| experiment.method.asked.machine.clone());
    qemu.check_cpu(&machine.cpu)?;
    let engine = first.map_or(&plan::ENGINES[0], |experiment| experiment.method.engine);
    let Measures::Counts { key, .. } = engine.measures else {
        return Err(super::no_engine("counts", engine.name));
    };
    let seed = first.map_or(1, |experiment| experiment.seed);
    let layouts = first.map_or(0, |experiment| experiment.method.layouts);
    Ok(CampaignPlan {
        format: FORMAT,
        title: campaign.title.clone(),
        seed,
        threshold_percent: first.map_or(0.0, |experiment| experiment.threshold_percent),
        key: key(qemu, &machine),
        machine,
        workloads: first.map_or(Ok(Vec::new()), |experiment| experiment.method.rows())?,
        layouts: plan::layouts_from_seed(seed, layouts),
        subjects: Vec::new(),
        timed: Vec::new(),
        shards: Vec::new(),
    })
}

/// Kernel of an experiment; `None` if it is built from source, which is done later.
fn kernel_unless_built(
    experiment: &Experiment<CountsExperiment>,
    session: &Session<'_>,
) -> Result<Option<Kernel>, Error> {
    let subject = &experiment.method.asked.subjects.base;
    let spec: KernelSpec = subject.kernel.parse()?;
    if spec.is_source() {
        session.with_talk(|talk| kernel::check(subject, &session.cache, talk))?;
        return Ok(None);
    }
    session.obtain(subject).map(Some)
}

/// Plans of the timed experiments, with the names of their directories.
fn timed_plans(
    campaign: &Campaign,
    session: &Session<'_>,
) -> Result<Vec<(String, crate::model::Plan)>, Error> {
    let mut names = BTreeSet::new();
    let mut plans = Vec::new();
    for named in &campaign.timed {
        let path = Path::new(named);
        let file = ExperimentFile::parse(&experiment_text(path)?, named)?;
        let refuse = |kind: &str| {
            Error::user(format!("{named} is {kind}"))
                .next("remove it from `timed`, which takes timed experiments without a sweep")
        };
        if !file.sweep.is_empty() {
            return Err(refuse("a sweep"));
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !names.insert(name.clone()) {
            return Err(Error::user(format!("two timed experiments are called {name}"))
                .next("rename one of the files"));
        }
        let plan = phases::plan(&Experiment::from_file(&file)?, session)?;
        match &plan.method {
            PlanMethod::Times(_) => plans.push((name, plan)),
            _ => return Err(refuse("not timed")),
        }
    }
    Ok(plans)
}

/// Measurements that the store has, by Subject and row.
fn stored_measurements(
    planned: &CampaignPlan,
    session: &Session<'_>,
) -> Result<Vec<Vec<Option<Measurement>>>, Error> {
    let store = session.store.as_ref().map(|used| &used.store);
    let stored_row = |subject: usize, row: usize| {
        let kernel_and_store = planned.subjects[subject].kernel.as_ref().zip(store);
        let found = kernel_and_store
            .map(|(kernel, store)| store.get(&planned.measurand(subject, row, kernel)));
        // Unreadable measurements are made again.
        found.and_then(Result::ok).flatten()
    };
    let rows = 0..planned.workloads.len();
    let stored_rows = |subject| rows.clone().map(|row| stored_row(subject, row)).collect();
    Ok((0..planned.subjects.len()).map(stored_rows).collect())
}

/// Estimated seconds of each row on one CPU; `None` for rows that the store has.
fn row_costs(planned: &CampaignPlan, stored: &[Vec<Option<Measurement>>]) -> Vec<SubjectCosts> {
    let rates = stored_rates();
    let seconds_of = |rows: &[&str]| estimated_seconds(planned, rows, rates.clone());
    let boots = seconds_of(&[]);
    let rows: Vec<f64> =
        planned.workloads.iter().map(|workload| seconds_of(&[&workload.row]) - boots).collect();
    let missing = |stored: &Vec<Option<Measurement>>| {
        let pairs = rows.iter().zip(stored);
        pairs.map(|(cost, stored)| stored.is_none().then_some(cost.max(0.0))).collect()
    };
    stored.iter().map(|stored| SubjectCosts { boots, rows: missing(stored) }).collect()
}

fn estimated_seconds(planned: &CampaignPlan, rows: &[&str], rates: Rates) -> f64 {
    let Key { engine, .. } = planned.key.clone();
    let rows = rows.iter().map(|row| (*row).to_owned()).collect();
    let mut remaining = RemainingRuns::new(rates);
    remaining.begin(Work { engine, boots: planned.layouts.len(), rows, jobs: 1 });
    remaining.left(Duration::ZERO).as_secs_f64()
}

/// Writes the directory. The plan comes last, because it marks a directory as a campaign.
fn write_directory(
    out: &Path,
    planned: CampaignPlan,
    stored: &[Vec<Option<Measurement>>],
    kernels: &[Option<Kernel>],
    timed: Vec<(String, crate::model::Plan)>,
) -> Result<CampaignDir, Error> {
    let dir = CampaignDir::new(out, planned);
    let store = Store::new(dir.store());
    for measurement in stored.iter().flatten().flatten() {
        store.put(measurement)?;
    }
    for kernel in kernels.iter().flatten() {
        dir.write_image(&kernel.identity.sha256, &kernel.image)?;
    }
    for (name, plan) in timed {
        AnyRunDir::create(&dir.timed_dir(&name), plan)?;
    }
    dir.begin()
}

/// First names of rows, and the number of further rows.
pub fn first_names(rows: &[String]) -> String {
    /// Four names fit into two lines of a terminal.
    const MAX_NAMES: usize = 4;
    let names = rows.iter().take(MAX_NAMES).map(|row| escape(row)).collect::<Vec<_>>().join(", ");
    match rows.len().saturating_sub(MAX_NAMES) {
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
    let path = dir.unit_dir(unit);
    let Ok(AnyRunDir::Counts(run_dir)) = AnyRunDir::open(&path) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for row in rows {
        if let Some(failure) = first_failure(&run_dir, row)? {
            found.push((row_name(dir, unit, row)?, failure.to_string()));
        }
    }
    Ok(found)
}

/// Names of rows, and why each failed.
type FailedRows = Vec<(String, String)>;

/// Rows of a unit that are not measured, in a campaign and its copies: the names of those that are
/// missing, and the names and reasons of those that failed on any machine.
fn unmeasured(
    dirs: &[CampaignDir],
    unit: &CampaignUnit,
) -> Result<(Vec<String>, FailedRows), Error> {
    let dir = &dirs[0];
    let rows = match dir.kernel(unit.subject)? {
        Some(kernel) => missing_rows(dir, unit, &kernel),
        None => unit.rows.iter().map(|row| dir.plan().workloads[*row].row.clone()).collect(),
    };
    let mut failed = BTreeMap::new();
    for copy in dirs {
        for (row, failure) in row_failures(copy, unit, &rows)? {
            failed.entry(row).or_insert(failure);
        }
    }
    let names = rows.iter().map(|row| row_name(dir, unit, row)).collect::<Result<Vec<_>, _>>()?;
    let missing = names.into_iter().filter(|name| !failed.contains_key(name)).collect();
    Ok((missing, failed.into_iter().collect()))
}

/// Copies measurements of these units from a user's store into the campaign's store. Unreadable
/// measurements are skipped, and therefore made again.
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
    /// Subjects whose kernels are not built yet.
    pub unbuilt: Vec<usize>,
    /// Estimated seconds that the missing rows take on one CPU; 0 for timed experiments.
    pub seconds: f64,
}

/// Progress of all shards, and of the rows that the store has lost, as one more shard.
pub fn status(dir: &CampaignDir) -> Result<Vec<ShardStatus>, Error> {
    let shards = dir.plan().shards.iter().enumerate();
    let mut shards: Vec<ShardStatus> = shards
        .map(|(number, shard)| shard_status(dir, number, shard))
        .collect::<Result<_, Error>>()?;
    // The shard after the last one has the rows that the store had when the campaign was planned.
    if let Some(stored) = dir.plan().shard(shards.len()) {
        let lost = shard_status(dir, shards.len(), &stored)?;
        if !lost.missing.is_empty() || !lost.failed.is_empty() {
            shards.push(lost);
        }
    }
    Ok(shards)
}

fn shard_status(dir: &CampaignDir, number: usize, shard: &Shard) -> Result<ShardStatus, Error> {
    let mut status = ShardStatus { number, ..ShardStatus::default() };
    if let Some(name) = shard.timed() {
        let is_done = AnyRunDir::open(&dir.timed_dir(name))?.comparison()?.is_some();
        let missing = Some(format!("the timed experiment {name}")).filter(|_| !is_done);
        (status.total, status.missing) = (1, missing.into_iter().collect());
    }
    for unit in shard.units() {
        status.total += unit.rows.len();
        if dir.kernel(unit.subject)?.is_none() {
            status.unbuilt.push(unit.subject);
        }
        let (missing, failed) = unmeasured(std::slice::from_ref(dir), unit)?;
        status.seconds += unit.seconds * missing.len() as f64 / unit.rows.len() as f64;
        status.missing.extend(missing);
        status.failed.extend(failed);
    }
    Ok(status)
}

/// Results of a campaign.
#[derive(Debug, Default)]
pub struct CollectedResults {
    /// Comparisons of each Subject with the one before it, then the timed experiments.
    pub comparisons: Vec<Comparison>,
    /// Failures in a guest: `row of subject`, and why.
    pub failed: Vec<(String, String)>,
    /// Reasons why files of the directory or its copies are not used.
    pub refused: Vec<String>,
    /// Number of pages that were written.
    pub pages: usize,
}

/// Collects the results of the shards from the directory, and from its copies on other machines:
/// compares each Subject with the one before it, writes pages, and copies all measurements and
/// results to the user's store.
pub fn collect(
    dir: &CampaignDir,
    copies: &[PathBuf],
    session: &Session<'_>,
) -> Result<CollectedResults, Error> {
    let mut dirs = vec![dir.clone()];
    for copy in copies {
        dirs.push(open_copy(dir, copy)?);
    }
    let mut collected = CollectedResults::default();
    for copy in &dirs {
        take_copy(dir, copy, &mut collected)?;
    }
    if let Some(used) = &session.store {
        // The campaign's store may have lost measurements that it had when it was planned.
        for shard in dir.plan().shard_numbers().filter_map(|number| dir.plan().shard(number)) {
            take_units(&used.store, dir, shard.units())?;
        }
    }
    let timed = timed_comparisons(&dirs)?;
    collected.failed = failed_in_guests(&dirs, &timed)?;
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

/// Opens a copy of the directory, and refuses a directory of another campaign.
fn open_copy(dir: &CampaignDir, path: &Path) -> Result<CampaignDir, Error> {
    let copy = CampaignDir::open(path)?;
    match copy.plan() == dir.plan() {
        true => Ok(copy),
        false => {
            let (path, original) = (path.display(), dir.root().display());
            Err(Error::user(format!("{path} is of another campaign"))
                .next(format!("only collect copies of {original}")))
        }
    }
}

/// Takes kernels and measurements of the campaign from a copy of its directory. Damaged files are
/// moved aside in the directory itself, and stay where they are in a copy.
fn take_copy(
    dir: &CampaignDir,
    copy: &CampaignDir,
    collected: &mut CollectedResults,
) -> Result<(), Error> {
    for subject in dir.plan().subjects_to_build() {
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
            Ok(Some(PutOutcome::Other(object))) => {
                let row = measurand.workload.row.clone();
                let [object, other] =
                    [object, from.path(&measurand)].map(|path| path.display().to_string());
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

/// All measurements of the campaign, except those of kernels that are not built yet.
fn measurands(dir: &CampaignDir) -> Result<Vec<Measurand>, Error> {
    let plan = dir.plan();
    let mut measurands = Vec::new();
    for subject in 0..plan.subjects.len() {
        if let Some(kernel) = dir.kernel(subject)? {
            let rows = 0..plan.workloads.len();
            measurands.extend(rows.map(|row| plan.measurand(subject, row, &kernel)));
        }
    }
    Ok(measurands)
}

/// Finished timed experiments by their names.
fn timed_comparisons(dirs: &[CampaignDir]) -> Result<BTreeMap<String, Comparison>, Error> {
    let mut found = BTreeMap::new();
    for name in &dirs[0].plan().timed {
        for dir in dirs {
            let comparison = AnyRunDir::open(&dir.timed_dir(name))?.comparison()?;
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
    dirs: &[CampaignDir],
    timed: &BTreeMap<String, Comparison>,
) -> Result<Vec<(String, String)>, Error> {
    let plan = dirs[0].plan();
    let (mut failed, mut missing, mut shards) = (Vec::new(), Vec::new(), Vec::new());
    for (number, shard) in
        plan.shard_numbers().filter_map(|number| Some((number, plan.shard(number)?)))
    {
        let before = missing.len();
        if let Some(name) = shard.timed().filter(|name| !timed.contains_key(*name)) {
            missing.push(format!("the timed experiment {name}"));
        }
        for unit in shard.units() {
            let (unit_missing, unit_failed) = unmeasured(dirs, unit)?;
            missing.extend(unit_missing);
            failed.extend(unit_failed);
        }
        if missing.len() > before {
            shards.push(number);
        }
    }
    match missing.is_empty() {
        true => Ok(failed),
        false => Err(some_missing(&missing, &shards, dirs[0].root())),
    }
}

fn some_missing(missing: &[String], shards: &[usize], path: &Path) -> Error {
    let are = if missing.len() == 1 { "is" } else { "are" };
    let word = if shards.len() == 1 { "shard" } else { "shards" };
    // Schedulers accept this list of numbers: `1,2,7`.
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
    let mut comparisons = Vec::new();
    // Each subject is read once: it is first the change, then the base of the next one.
    let mut previous: Option<Vec<Option<Measurement>>> = None;
    for subject in 0..plan.subjects.len() {
        let current = rows_of(subject)?;
        let pairs = previous.into_iter().flatten().zip(&current);
        let both = |(base, change): (Option<Measurement>, &Option<Measurement>)| {
            Some(Sides { base: base?, change: change.clone()? })
        };
        let rows: Vec<Sides<Measurement>> = pairs.filter_map(both).collect();
        // Two names of one kernel, or subjects without a common row, are not compared.
        if rows.first().is_some_and(|row| row.base.measurand != row.change.measurand) {
            comparisons.push(compare(rows, plan.threshold_percent, &store)?);
        }
        previous = Some(current);
    }
    Ok(comparisons)
}
