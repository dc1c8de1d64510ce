//! What a Plan of times needs to know before it is one.

use std::collections::BTreeMap;

use super::calibrate::calibrated;
use super::error::BlockError;
use super::{cpus, programs};
use crate::engine::host::{Host, Running};
use crate::engine::kvm::check_device;
use crate::engine::qemu::Qemu;
use crate::flow::context::OrHost;
use crate::flow::error::Error;
use crate::flow::session::Session;
use crate::model::{Identity, Plan, RunsOn, Subject, TimedSubject, TimesPlan};
use crate::plan::{Experiment, TimesExperiment};

/// The Plan with its Kernels, and with operations that were tried out on the running kernel.
pub(in crate::flow) fn plan(
    experiment: &Experiment<TimesExperiment>,
    session: &Session<'_>,
) -> Result<Plan<TimesPlan>, Error> {
    refuse(experiment)?;
    let mut plan = experiment.plan()?;
    if plan.method.runs_on == RunsOn::Guests {
        Qemu::find(session.qemu.as_deref())?.check_cpu(&plan.method.machine.cpu)?;
    }
    plan.method.kernels = kernels(&plan.method, session)?;
    let native = session.native()?.with(programs::identify(&mut plan.method, session)?);
    session.observer.status("finding out how many operations take 20 ms");
    let method = session.unless_cancelled(calibrated(plan.method.clone(), &native));
    session.observer.status("");
    plan.method = method?;
    Ok(plan)
}

/// Refuses CPUs, settings and values that this machine does not have.
fn refuse(experiment: &Experiment<TimesExperiment>) -> Result<(), Error> {
    cpus::check(&experiment.method.machine)?;
    Ok(settings_of(experiment).try_for_each(|side| Running::default().check(side))?)
}

/// The Sides that are settings of the running kernel. A kernel that the user boots may have others.
fn settings_of(experiment: &Experiment<TimesExperiment>) -> impl Iterator<Item = &TimedSubject> {
    let of = &experiment.method;
    let is_here = of.engine.runs_on == RunsOn::RunningKernel;
    [&of.base, &of.change].into_iter().filter(move |side| is_here && side.kernel.is_none())
}

/// Refuses what would be refused later: CPUs that are not there, a KVM that this user may not use,
/// settings that this user may not change, and Sides that the user boots, because one command
/// cannot boot another kernel in the middle.
pub(in crate::flow) fn check(experiment: &Experiment<TimesExperiment>) -> Result<(), Error> {
    refuse(experiment)?;
    if experiment.method.engine.runs_on == RunsOn::Guests {
        check_device(experiment.method.machine.accelerator)?;
    }
    settings_of(experiment).try_for_each(|side| Running::default().check_may_change(side))?;
    match experiment.plan()?.method.is_in_blocks() {
        false => Ok(()),
        true => {
            let next = "type the same command with `plan` for `compare` and with --out DIR; it \
                        says what to type then";
            Err(BlockError::Booted { next: next.to_owned() }.into())
        }
    }
}

impl Session<'_> {
    /// The running kernel's programs as they are.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn native(&self) -> Result<Host, Error> {
        let host = Host::new(&self.cache, self.limits.clone(), self.cancel.clone());
        let next = "name another directory with --cache DIR";
        host.context("cannot write the guest program to the cache", next)
    }
}

/// The guests' Kernels, so that a run that is resumed goes on with these and no others.
fn kernels(plan: &TimesPlan, session: &Session<'_>) -> Result<BTreeMap<String, Identity>, Error> {
    let mut kernels = BTreeMap::new();
    if plan.runs_on == RunsOn::Guests {
        for name in [&plan.subjects.base, &plan.subjects.change].into_iter().flat_map(|s| &s.kernel)
        {
            if !kernels.contains_key(name) {
                kernels.insert(name.clone(), session.obtain(&Subject::of(name, ""))?.identity);
            }
        }
    }
    Ok(kernels)
}
