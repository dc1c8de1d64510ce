use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crate::engine::Measures;
use crate::engine::qemu::Qemu;
use crate::flow::error::{self, Error};
use crate::flow::remaining::{Rates, Remaining, Work, learned};
use crate::flow::session::Session;
use crate::flow::{experiment_text, phases};
use crate::kernel::{self, Kernel, KernelSpec};
use crate::model::{
    CampaignPlan, CampaignSubject, FORMAT, Key, Machine, Measurement, PlanMethod, Shard,
};
use crate::plan::{
    self, Campaign, Costs, CountsExperiment, Experiment, ExperimentFile, ExperimentMethod,
};
use crate::rundir::{AnyRunDir, CampaignDir, check_free};
use crate::store::Store;

/// Plans a campaign in a new directory: gets the kernels that are not built from source, takes
/// measurements from the store, and divides the others into `shards`, or into shards of about ten
/// minutes.
pub fn plan(
    campaign: &Campaign,
    out: &Path,
    shards: Option<usize>,
    session: &Session<'_>,
) -> Result<CampaignDir, Error> {
    check_free(out)?;
    for one in &campaign.subjects {
        session.check_names(&ExperimentMethod::Counts(one.method.clone()))?;
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
    let known = known_measurements(&planned, session)?;
    let costs = row_costs(&planned, &known);
    let counted = plan::divide(&costs, shards).into_iter().map(Shard::Counts);
    planned.timed = timed.iter().map(|(name, _)| name.clone()).collect();
    // Timed shards come last, because nothing may run beside them.
    planned.shards = counted.chain(planned.timed.iter().cloned().map(Shard::Times)).collect();
    write_directory(out, planned, &known, &kernels, timed)
}

/// Plan without its Subjects and shards.
fn plan_without_subjects(campaign: &Campaign, qemu: &Qemu) -> Result<CampaignPlan, Error> {
    let first = campaign.subjects.first();
    let usual = Machine::default();
    let machine = first.map_or(usual, |experiment| experiment.method.asked.machine.clone());
    qemu.check_cpu(&machine.cpu)?;
    let engine = first.map_or(&plan::ENGINES[0], |experiment| experiment.method.engine);
    let Measures::Counts { key, .. } = engine.measures else {
        return Err(error::no_engine("counts", engine.name));
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
        layouts: plan::layouts_of(seed, layouts),
        subjects: Vec::new(),
        timed: Vec::new(),
        shards: Vec::new(),
    })
}

/// Kernel of an experiment; `None` if a shard of its own builds it.
fn kernel_unless_built(
    experiment: &Experiment<CountsExperiment>,
    session: &Session<'_>,
) -> Result<Option<Kernel>, Error> {
    let subject = &experiment.method.asked.subjects.base;
    let spec: KernelSpec = subject.kernel.parse()?;
    if spec.is_source() {
        session.talking(|talk| kernel::check(subject, &session.cache, talk))?;
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
    let mut all = Vec::new();
    for named in &campaign.timed {
        let path = Path::new(named);
        let file = ExperimentFile::parse(&experiment_text(path)?, named)?;
        let refuse = |what: &str| {
            Error::user(format!("{named} is {what}"))
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
            PlanMethod::Times(_) => all.push((name, plan)),
            _ => return Err(refuse("not timed")),
        }
    }
    Ok(all)
}

/// Measurements that the store has, by Subject and row.
fn known_measurements(
    planned: &CampaignPlan,
    session: &Session<'_>,
) -> Result<Vec<Vec<Option<Measurement>>>, Error> {
    let store = session.store.as_ref().map(|used| &used.store);
    let known_row = |subject: usize, row: usize| {
        let known = planned.subjects[subject].kernel.as_ref().zip(store);
        let found =
            known.map(|(kernel, store)| store.get(&planned.measurand(subject, row, kernel)));
        // Unreadable measurements are made again.
        found.and_then(Result::ok).flatten()
    };
    let rows = 0..planned.workloads.len();
    let known_subject = |subject| rows.clone().map(|row| known_row(subject, row)).collect();
    Ok((0..planned.subjects.len()).map(known_subject).collect())
}

/// Estimated seconds of each row on one CPU; `None` for rows that are measured.
fn row_costs(planned: &CampaignPlan, known: &[Vec<Option<Measurement>>]) -> Vec<Costs> {
    let rates = learned();
    let seconds_of = |rows: &[&str]| estimated_seconds(planned, rows, rates.clone());
    let boots = seconds_of(&[]);
    let rows: Vec<f64> =
        planned.workloads.iter().map(|workload| seconds_of(&[&workload.row]) - boots).collect();
    let left = |known: &Vec<Option<Measurement>>| {
        let pairs = rows.iter().zip(known);
        pairs.map(|(cost, known)| known.is_none().then_some(cost.max(0.0))).collect()
    };
    known.iter().map(|known| Costs { boots, rows: left(known) }).collect()
}

fn estimated_seconds(planned: &CampaignPlan, rows: &[&str], rates: Rates) -> f64 {
    let Key { engine, .. } = planned.key.clone();
    let rows = rows.iter().map(|row| (*row).to_owned()).collect();
    let mut remaining = Remaining::new(rates);
    remaining.begin(Work { engine, boots: planned.layouts.len(), rows, jobs: 1 });
    remaining.left(Duration::ZERO).as_secs_f64()
}

/// Writes the directory. The plan comes last, because it marks a directory as a campaign.
fn write_directory(
    out: &Path,
    planned: CampaignPlan,
    known: &[Vec<Option<Measurement>>],
    kernels: &[Option<Kernel>],
    timed: Vec<(String, crate::model::Plan)>,
) -> Result<CampaignDir, Error> {
    let dir = CampaignDir::at(out, planned);
    let store = Store::new(dir.store());
    for measurement in known.iter().flatten().flatten() {
        store.put(measurement)?;
    }
    for kernel in kernels.iter().flatten() {
        dir.write_image(&kernel.identity.sha256, &kernel.image)?;
    }
    for (name, plan) in timed {
        AnyRunDir::create(&dir.timed(&name), plan)?;
    }
    Ok(dir.begin()?)
}
