//! Counts: both Kernels, the exact engine, every Boot and Run.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::error::Error;
use super::programs::{self, Guests};
use super::remaining::Work;
use super::session::Session;
use super::stale::StalePlanError;
use super::store;
use super::traced;
use super::workloads;
use crate::analyse;
use crate::engine::qemu::Qemu;
use crate::engine::{self, CountsSetup, Measures};
use crate::kernel;
use crate::model::{Boot, CountsPlan, Disk, Plan, Side, Sides, Step, Warning};
use crate::plan::{CountsExperiment, Experiment};
use crate::program::PackedModules;
use crate::run::{CountsBoots, Driver, Ended, Event};
use crate::rundir::RunDir;

/// Gets both Kernels, asks QEMU which one it is, draws the Layouts.
pub(super) fn plan(
    experiment: &Experiment<CountsExperiment>,
    session: &Session<'_>,
) -> Result<Plan<CountsPlan>, Error> {
    let experiment = &traced::experiment(experiment, session)?;
    let of = &experiment.method;
    let CountsExperiment { engine, machine, base, change, .. } = of;
    // Names are checked before anything is fetched.
    of.rows()?;
    let Measures::Counts { key, .. } = engine.measures else {
        return Err(StalePlanError::no_engine("counts", engine.name).into());
    };
    let qemu = Qemu::find(session.qemu.as_deref())?;
    qemu.check_cpu(&machine.cpu)?;
    qemu.check_cpus(machine.cpus)?;
    let guest = workloads::guest(of.workloads_from.as_deref(), session)?;
    let guests = Guests {
        programs: &of.programs,
        hooks: of.hooks.as_deref(),
        disk: of.disk.as_ref(),
        subjects: Sides { base, change },
        memory_mib: machine.memory_mib,
    };
    let packed = guests.pack(session)?;
    let is_one = change.is_kernel_of(base);
    if !is_one {
        // Nobody waits for the base's build to hear of a mistake in the change.
        session.talking(|talk| kernel::check(change, &session.cache, talk))?;
    }
    let base = session.obtain(base)?.identity;
    let change = match is_one {
        true => base.clone(),
        false => session.obtain(change)?.identity,
    };
    let modules = Disk::with_modules(of.disk.as_ref(), &of.modules);
    let (key, archives) = programs::key(key(&qemu, machine), &guest, &packed, modules);
    let plan = experiment.plan(Sides { base, change }, key, archives)?;
    modules_of(&plan.method, session)?;
    Ok(plan)
}

/// The modules that the guests of each Side load. With them come those that a real machine loads
/// for its CPU; a Side that loads no other has none of these.
fn modules_of(
    plan: &CountsPlan,
    session: &Session<'_>,
) -> Result<Sides<Option<PackedModules>>, Error> {
    let modules = |side| {
        let kernel = plan.kernels.get(side);
        programs::modules(&plan.modules_of(side), kernel, session)
    };
    Sides::try_from_fn(modules)
}

/// Makes every Boot that is missing.
pub(super) fn run(dir: &RunDir<CountsPlan>, session: &Session<'_>) -> Result<Ended, Error> {
    with_boots(dir, session, |boots| {
        let to_keep = store::take(dir, session)?;
        let observer = session.observer;
        observer.begin(&work(&dir.plan().method, session));
        let said = Mutex::new(BTreeSet::new());
        let driver = Driver {
            dir,
            boots,
            jobs: session.jobs,
            cancel: &session.cancel,
            observe: &|event| {
                observer.event(&event);
                if let Event::Booted(step, boot) = event {
                    say_unknown_parameters(&dir.plan().method, step, boot, &said, session);
                }
            },
        };
        let (ended, timing) = driver.run()?;
        observer.end(&timing);
        if ended == Ended::Complete {
            store::keep(&to_keep, dir, session)?;
        }
        Ok(ended)
    })
}

/// Names the boot parameters that a Side's kernel does not know, at the first boot of that Side:
/// nobody waits for all runs to hear of a mistyped one.
fn say_unknown_parameters(
    plan: &CountsPlan,
    step: &Step,
    boot: &Boot,
    said: &Mutex<BTreeSet<Side>>,
    session: &Session<'_>,
) {
    let is_first = said.lock().is_ok_and(|mut said| said.insert(step.side));
    if !is_first {
        return;
    }
    let boot_line = &plan.subjects.get(step.side).boot_line;
    let is_ignored = |word: &str| boot.ignored.iter().any(|ignored| ignored == word);
    for Warning { fact, next_step } in analyse::unknown_parameters(step.side, boot_line, is_ignored)
    {
        session.observer.note(&format!("{fact}; {next_step}"));
    }
}

/// Does something with what makes the Boots of a Plan.
pub(super) fn with_boots<T>(
    dir: &RunDir<CountsPlan>,
    session: &Session<'_>,
    call: impl FnOnce(CountsBoots<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let plan = &dir.plan().method;
    let engine = engine::named(&plan.key.engine).map(|it| it.measures);
    let Some(Measures::Counts { key, open }) = engine else {
        return Err(StalePlanError::no_engine("counts", &plan.key.engine).into());
    };
    let qemu = Qemu::find(session.qemu.as_deref())?;
    let guest = workloads::planned(plan, session)?;
    let packed = programs::planned(plan, session)?;
    let modules = plan.key.modules.clone();
    let (key, archives) = programs::key(key(&qemu, &plan.machine), &guest, &packed, modules);
    if key != plan.key || archives != plan.archives {
        return Err(StalePlanError::other_key(dir.root(), &plan.key, &key).into());
    }
    let CountsPlan { kernels, subjects, .. } = plan;
    let image = |side| session.image(kernels.get(side), subjects.get(side));
    let images = Sides::try_from_fn(image)?;
    let modules = modules_of(plan, session)?;
    let limits = session.limits.clone().for_cpus(plan.machine.cpus);
    let virtual_s = limits.virtual_s;
    let (cache, cancel) = (session.cache.as_path(), session.cancel.clone());
    let cpus = plan.machine.cpus;
    let setup = CountsSetup { qemu, cpus, cache, limits, cancel, guest };
    let engine = open(setup)?;
    call(CountsBoots { engine: &*engine, images, modules, programs: packed, virtual_s })
}

/// What is to be done, all in all.
pub(super) fn work(plan: &CountsPlan, session: &Session<'_>) -> Work {
    Work {
        engine: plan.key.engine.clone(),
        boots: plan.steps.len(),
        rows: plan.workloads.iter().map(|row| row.row.clone()).collect(),
        jobs: session.jobs,
    }
}
