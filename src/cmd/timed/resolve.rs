//! What a Plan of times needs to know before it is one.

use std::collections::BTreeMap;

use super::super::args::HostArgs;
use super::super::drive::{cancel, obtain};
use super::super::progress::spinner;
use super::calibrate::calibrated;
use super::engine::native;
use crate::model::{Identity, Subject, TimedEngine, TimedPlan};
use crate::plan::TimedExperiment;

/// The Plan with its Kernels, and with operations that were tried out on the running kernel;
/// `None` where the user stopped that.
pub fn resolve(experiment: &TimedExperiment, args: &HostArgs) -> anyhow::Result<Option<TimedPlan>> {
    let plan = experiment.plan()?;
    let cancel = cancel()?;
    let kernels = kernels(&plan, args)?;
    let bar = spinner();
    bar.set_message("finding out how many operations take 20 ms");
    let calibrated = calibrated(TimedPlan { kernels, ..plan }, &native(args, &cancel)?);
    bar.finish_and_clear();
    calibrated
}

/// The guests' Kernels, so that a run that goes on goes on with these and no others.
fn kernels(plan: &TimedPlan, args: &HostArgs) -> anyhow::Result<BTreeMap<String, Identity>> {
    let mut kernels = BTreeMap::new();
    if plan.engine == TimedEngine::Kvm {
        let cache = args.cache()?;
        for name in [&plan.subjects.base, &plan.subjects.change].into_iter().flat_map(|s| &s.kernel)
        {
            if !kernels.contains_key(name) {
                kernels.insert(name.clone(), obtain(&Subject::of(name, ""), &cache)?.identity);
            }
        }
    }
    Ok(kernels)
}
