//! The phases, whatever the method: each looks once at what it is given.

use std::time::Duration;

use super::error::Error;
use super::options::Options;
use super::remaining::{Remaining, basis, learned, spoken};
use super::session::Session;
use super::{counts, guests, kept, times, touching};
use crate::analyse;
use crate::model::{Comparison, Plan, PlanMethod, Warning};
use crate::plan::{Experiment, ExperimentMethod};
use crate::report::Report;
use crate::run::Ended;
use crate::rundir::AnyRunDir;
use crate::text::{counted, shell_path};

/// Plans an Experiment: gets its Kernels, draws what is to be drawn. Nothing is measured.
///
/// # Errors
/// A Kernel cannot be had, or a row cannot be run.
pub fn plan(experiment: &Experiment, session: &Session<'_>) -> Result<Plan, Error> {
    session.check_names(&experiment.method)?;
    if let ExperimentMethod::Counts(method) = &experiment.method {
        if method.workloads.is_none() {
            let rows = method.rows()?.into_iter().map(|row| row.row).collect::<Vec<_>>();
            let remark = touching::remark(&method.change, &rows)?;
            remark.into_iter().for_each(|remark| session.observer.note(&remark));
        }
    }
    let plan: Plan = match &experiment.method {
        ExperimentMethod::Counts(of) => {
            counts::plan(&experiment.with(of.clone()), session)?.with(Into::into)
        }
        ExperimentMethod::Times(of) => {
            times::plan(&experiment.with(of.clone()), session)?.with(Into::into)
        }
        ExperimentMethod::Guests(of) => {
            guests::plan(&experiment.with(of.clone()), session)?.with(Into::into)
        }
    };
    // Nobody waits for a result to hear of a mistyped name.
    if let Some(Warning { fact, next_step }) = analyse::one_image(&plan.method) {
        session.observer.note(&format!("{fact}; {next_step}"));
    }
    Ok(plan)
}

/// Makes what is missing in a run directory, which the caller has locked.
///
/// # Errors
/// The Plan is of another QEMU or ktax, or something on the host failed. What fails in a guest is a
/// row.
pub fn run(dir: &AnyRunDir, options: Options, session: &Session<'_>) -> Result<Ended, Error> {
    match dir {
        AnyRunDir::Counts(dir) => {
            options.only_for_times("the exact engine")?;
            counts::run(dir, session)
        }
        AnyRunDir::Times(dir) => times::run(dir, options, session),
        AnyRunDir::Guests(dir) => {
            options.only_for_times("guests of a KVM host")?;
            guests::run(dir, session)
        }
    }
}

/// Compares the Sides, and keeps the Comparison and its reports in the directory.
///
/// # Errors
/// A Boot or Run is missing, or a file is not of ktax's.
pub fn analyse(dir: &AnyRunDir, options: Options) -> Result<Comparison, Error> {
    let comparison = match dir {
        AnyRunDir::Counts(dir) => {
            options.only_for_times("the exact engine")?;
            analyse::counts(dir)?
        }
        AnyRunDir::Times(dir) => times::analyse(dir, options)?,
        AnyRunDir::Guests(dir) => {
            options.only_for_times("guests of a KVM host")?;
            analyse::guests(dir)?
        }
    };
    dir.write_comparison(&comparison.saved())?;
    for (name, text) in kept::reports(&comparison)? {
        dir.write_report(name, &text)?;
    }
    Ok(comparison)
}

/// What to do with a run directory that has nothing but its Plan.
pub fn planned(dir: &AnyRunDir) -> String {
    let path = shell_path(dir.root());
    match dir {
        AnyRunDir::Counts(dir) => {
            let plan = &dir.plan().method;
            let boots = counted(plan.steps.len(), "boot");
            let rows = counted(plan.workloads.len(), "row");
            format!("planned {boots} with {rows}; run them with `ktax run {path}`")
        }
        AnyRunDir::Times(dir) => times::planned(dir),
        AnyRunDir::Guests(dir) => {
            let plan = &dir.plan().method;
            let guests = counted(plan.steps.len() * plan.rows.len(), "guest");
            format!("planned {guests}; run them with `ktax run {path}`")
        }
    }
}

/// How long a Plan takes here, in words; of times at most, because they end when they know enough.
pub fn estimate(plan: &Plan, session: &Session<'_>) -> Option<String> {
    let work = match &plan.method {
        PlanMethod::Counts(plan) => counts::work(plan, session),
        PlanMethod::Guests(plan) => guests::work(plan, session),
        PlanMethod::Times(plan) => return times::estimate(plan, &learned()),
    };
    let rates = learned();
    let basis = basis(rates.knows(&work.engine));
    let jobs = work.jobs.min(work.boots);
    let mut remaining = Remaining::new(rates);
    remaining.begin(work);
    let left = spoken(remaining.left(Duration::ZERO));
    let vms = counted(jobs, "VM");
    Some(format!("it takes about {left} with {vms} at a time ({basis})"))
}
