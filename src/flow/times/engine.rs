//! The engine that a Plan asks for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::cpus;
use crate::engine::{self, Measures, Timed, TimedSetup};
use crate::flow::error::Error;
use crate::flow::session::Session;
use crate::model::{RunsOn, Subject, TimesPlan};
use crate::rundir::RunDir;

/// Makes it ready.
pub(super) fn engine<'a>(
    dir: &'a RunDir<TimesPlan>,
    session: &'a Session<'_>,
) -> Result<Box<dyn Timed + 'a>, Error> {
    let plan = &dir.plan().method;
    let Some(Measures::Times { open }) = engine::named(&plan.engine).map(|it| it.measures) else {
        return Err(Error::no_engine("times", &plan.engine));
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
        cpus,
        limits: session.limits.clone(),
        cancel: session.cancel.clone(),
        note: Box::new(|text| session.observer.note(text)),
    })?)
}

fn images(plan: &TimesPlan, session: &Session<'_>) -> Result<BTreeMap<String, PathBuf>, Error> {
    let mut images = BTreeMap::new();
    for kernel in [&plan.subjects.base, &plan.subjects.change].into_iter().flat_map(|s| &s.kernel) {
        let planned = plan.kernels.get(kernel).ok_or_else(|| unplanned(kernel))?;
        images.insert(kernel.clone(), session.image(planned, &Subject::of(kernel, ""))?);
    }
    Ok(images)
}

fn unplanned(kernel: &str) -> Error {
    Error::usage(format!("plan.json has no kernel {kernel:?}; plan again with `ktax plan`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_kernel_is_quoted_and_escaped() {
        let said = unplanned("linux\x1b\n").to_string();
        let name = "\"linux\\u{1b}\\n\"";
        assert_eq!(said, format!("plan.json has no kernel {name}; plan again with `ktax plan`"));
    }
}
