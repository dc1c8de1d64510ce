//! What `plan`, `run` and `compare` have in common: Kernels, the engine, progress.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;

use anyhow::Context;

use super::args::HostArgs;
use super::exit::UsageError;
use super::progress::{Progress, say, spinner};
use crate::engine::Cancel;
use crate::engine::exact::Exact;
use crate::engine::qemu::Qemu;
use crate::kernel::{self, BuildError, Kernel, KernelError, KernelSpec, Talk, Target};
use crate::model::{Identity, Plan, Sides, Subject};
use crate::plan::{self, Experiment};
use crate::run::{Driver, Ended};
use crate::rundir::RunDir;

/// Resolves an Experiment: gets both Kernels, asks QEMU which one it is, draws the Layouts.
pub fn plan(experiment: &Experiment, host: &HostArgs) -> anyhow::Result<Plan> {
    let _ = cancel()?;
    // Names are checked before anything is fetched.
    plan::select(&plan::definitions()?, experiment.workloads.as_deref())?;
    let qemu = Qemu::find(host.qemu.as_deref())?;
    let cache = host.cache()?;
    let is_one = experiment.change.is_kernel_of(&experiment.base);
    if !is_one {
        // Nobody waits for the base's build to hear of a mistake in the change.
        talking(|talk| kernel::check(&experiment.change, &cache, talk))?;
    }
    let base = obtain(&experiment.base, &cache)?.identity;
    let change = match is_one {
        true => base.clone(),
        false => obtain(&experiment.change, &cache)?.identity,
    };
    let kernels = Sides { base, change };
    Ok(plan::plan(experiment, kernels, Exact::key(&qemu, &experiment.machine))?)
}

/// Why a Kernel cannot be built, if its source or its options are to blame; any other error is no
/// verdict on them.
pub fn why_unbuilt(error: anyhow::Error) -> anyhow::Result<String> {
    match error.downcast_ref() {
        Some(KernelError::Build(BuildError::Failed { first, .. })) => {
            Ok(format!("it does not build: {first}"))
        }
        Some(KernelError::Build(dropped @ BuildError::Dropped { .. })) => Ok(dropped.to_string()),
        _ => Err(error),
    }
}

/// A run directory: made, or gone on with if it is of the same plan.
pub fn directory(path: &Path, plan: Plan) -> anyhow::Result<RunDir> {
    match RunDir::open(path) {
        Ok(dir) if *dir.plan() == plan => Ok(dir),
        Ok(_) => Err(UsageError::Text(format!(
            "{} is of another plan; give --out a new name",
            path.display()
        ))
        .into()),
        Err(_) => Ok(RunDir::create(path, plan)?),
    }
}

/// Makes every Boot that is missing.
pub fn run(dir: &RunDir, host: &HostArgs) -> anyhow::Result<Ended> {
    let cancel = cancel()?;
    let qemu = Qemu::find(host.qemu.as_deref())?;
    let key = Exact::key(&qemu, &dir.plan().machine);
    if key != dir.plan().key {
        let planned = &dir.plan().key;
        return Err(UsageError::Text(format!(
            "the plan is for QEMU {} and this ktax is not the one that made it, or QEMU is {} now: \
             counts would not compare; plan again with `ktax plan`",
            planned.qemu, key.qemu
        ))
        .into());
    }
    let cache = host.cache()?;
    let Plan { kernels, subjects, .. } = dir.plan();
    let images = Sides::try_from_fn(|side| image(kernels.get(side), subjects.get(side), &cache))?;
    let limits = host.limits();
    let virtual_s = limits.virtual_s;
    let engine = Exact::new(qemu, &cache, limits, cancel.clone())
        .map_err(|failure| anyhow::anyhow!("{failure}; {}", failure.next_step()))?;
    let progress = Progress::new(dir.plan());
    let observe = |event: crate::run::Event<'_>| progress.show(&event);
    let driver = Driver {
        dir,
        engine: &engine,
        images,
        jobs: host.jobs(),
        cancel: &cancel,
        virtual_s,
        observe: &observe,
    };
    let (ended, timing) = driver.run()?;
    progress.finish(&timing);
    Ok(ended)
}

/// The flag that Ctrl-C raises: one for the whole process, so that none is lost between two phases.
pub fn cancel() -> anyhow::Result<Cancel> {
    static CANCEL: OnceLock<Cancel> = OnceLock::new();
    if let Some(cancel) = CANCEL.get() {
        return Ok(cancel.clone());
    }
    let cancel = Cancel::on_signals().context("cannot catch signals")?;
    Ok(CANCEL.get_or_init(|| cancel).clone())
}

/// Whether the user has asked to stop.
pub fn is_cancelled() -> bool {
    cancel().is_ok_and(|cancel| cancel.is_cancelled())
}

/// Gets the Kernel of a Subject, telling the user what is fetched and built.
pub fn obtain(subject: &Subject, cache: &Path) -> anyhow::Result<Kernel> {
    talking(|talk| kernel::obtain(subject, cache, talk))
}

/// The same of a Kernel for another machine.
pub fn obtain_for(target: &Target, subject: &Subject, cache: &Path) -> anyhow::Result<Kernel> {
    talking(|talk| kernel::obtain_for(target, subject, cache, talk))
}

/// Works with the user being told what is going on.
pub fn talking<T>(work: impl FnOnce(&Talk) -> Result<T, KernelError>) -> anyhow::Result<T> {
    let bar = spinner();
    let note = |note: &str| bar.suspend(|| note!("ktax: {note}"));
    let status = |status: &str| say(&bar, status);
    let done = work(&Talk { note: &note, status: &status, is_cancelled: &is_cancelled });
    bar.finish_and_clear();
    Ok(done?)
}

/// The image of a planned Kernel: from the cache by its hash, or fetched again.
pub fn image(planned: &Identity, subject: &Subject, cache: &Path) -> anyhow::Result<PathBuf> {
    if let Some(cached) = kernel::cached(&planned.sha256, cache) {
        return Ok(cached);
    }
    // A newer package may have come since; the plan has the version.
    let named = match subject.is_built() || KernelSpec::from_str(&subject.kernel)?.is_source() {
        true => subject.clone(),
        false => Subject::of(&planned.source, ""),
    };
    let kernel = obtain(&named, cache)?;
    if kernel.identity.sha256 != planned.sha256 {
        return Err(UsageError::Text(format!(
            "{} is another kernel than when the plan was made; plan again with `ktax plan`",
            planned.source
        ))
        .into());
    }
    Ok(kernel.image)
}
