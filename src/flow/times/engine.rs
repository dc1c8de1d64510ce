//! The engine that a Plan asks for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{cpus, programs};
use crate::engine::{self, Measures, Timed, TimedSetup};
use crate::flow::error::Error;
use crate::flow::session::Session;
use crate::flow::stale::StalePlanError;
use crate::model::{RunsOn, Subject, TimesPlan};
use crate::rundir::RunDir;

/// Makes it ready.
pub(super) fn engine<'a>(
    dir: &'a RunDir<TimesPlan>,
    session: &'a Session<'_>,
    between: &'a dyn Fn(),
) -> Result<Box<dyn Timed + 'a>, Error> {
    let plan = &dir.plan().method;
    let Some(Measures::Times { open }) = engine::named(&plan.engine).map(|it| it.measures) else {
        return Err(StalePlanError::no_engine("times", &plan.engine).into());
    };
    let (images, cpus) = match plan.runs_on {
        RunsOn::RunningKernel => Default::default(),
        RunsOn::Guests => (images(plan, session)?, cpus::of_run(dir)?),
    };
    Ok(open(TimedSetup {
        plan,
        qemu: session.qemu.as_deref(),
        cache: &session.cache,
        images,
        programs: programs::in_guests(plan, session)?,
        native: programs::here(plan, session)?,
        cpus,
        limits: session.limits.clone(),
        between,
        cancel: session.cancel.clone(),
        note: Box::new(|text| session.observer.note(text)),
    })?)
}

fn images(plan: &TimesPlan, session: &Session<'_>) -> Result<BTreeMap<String, PathBuf>, Error> {
    let mut images = BTreeMap::new();
    for kernel in [&plan.subjects.base, &plan.subjects.change].into_iter().flat_map(|s| &s.kernel) {
        let unplanned = || StalePlanError::NoKernel { name: kernel.clone() };
        let planned = plan.kernels.get(kernel).ok_or_else(unplanned)?;
        images.insert(kernel.clone(), session.image(planned, &Subject::of(kernel, ""))?);
    }
    Ok(images)
}
