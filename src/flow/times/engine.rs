//! The engine that a Plan asks for.

use std::collections::BTreeMap;

use super::cpus;
use crate::engine::host::{journal, timed::TimedHost};
use crate::engine::kvm::{Kvm, Setup};
use crate::engine::qemu::Qemu;
use crate::engine::{Booted, Stop, Timed, noise};
use crate::flow::error::Error;
use crate::flow::session::Session;
use crate::model::{Subject, TimedEngine, TimedSubject, TimesPlan, Workload};
use crate::rundir::RunDir;

/// Makes it ready.
pub(super) fn engine<'a>(
    dir: &RunDir<TimesPlan>,
    session: &'a Session<'_>,
) -> Result<Box<dyn Timed + 'a>, Error> {
    let plan = &dir.plan().method;
    Ok(match plan.engine {
        TimedEngine::Host => Box::new(host(plan, session)?),
        TimedEngine::Kvm if plan.subjects.base.bare_metal => {
            let (host, kvm) = (host(plan, session)?, kvm(dir, session)?);
            Box::new(BareMetal { host, kvm })
        }
        TimedEngine::Kvm => Box::new(kvm(dir, session)?),
    })
}

fn host<'a>(plan: &TimesPlan, session: &'a Session<'_>) -> Result<TimedHost<'a>, Error> {
    let (host, note) = (session.native()?, |text: &str| session.observer.note(text));
    let sides = [&plan.subjects.base, &plan.subjects.change];
    Ok(TimedHost::new(host, &journal::state_dir(), sides, noise::facts, note)?)
}

fn kvm(dir: &RunDir<TimesPlan>, session: &Session<'_>) -> Result<Kvm, Error> {
    let plan = &dir.plan().method;
    let mut images = BTreeMap::new();
    for kernel in [&plan.subjects.base, &plan.subjects.change].into_iter().flat_map(|s| &s.kernel) {
        let planned = plan.kernels.get(kernel).ok_or_else(|| unplanned(kernel))?;
        images.insert(kernel.clone(), session.image(planned, &Subject::of(kernel, ""))?);
    }
    let qemu = Qemu::find(session.qemu.as_deref())?;
    let (limits, cancel) = (session.limits.clone(), session.cancel.clone());
    let (shape, cpus, cache) = (plan.machine.clone(), cpus::of_run(dir)?, session.cache.clone());
    let machine = noise::facts;
    let setup = Setup { qemu, cache, images, shape, cpus, machine, limits, cancel };
    Kvm::new(setup).map_err(Error::Failed)
}

fn unplanned(kernel: &str) -> Error {
    let kernel = kernel.escape_default();
    Error::usage(format!("plan.json has no kernel {kernel:?}; plan again with `ktax plan`"))
}

/// A guest beside the machine that it runs on.
struct BareMetal<'a> {
    host: TimedHost<'a>,
    kvm: Kvm,
}

impl Timed for BareMetal<'_> {
    fn boot(&self, subject: &TimedSubject, loops: &[&Workload]) -> Result<Booted, Stop> {
        match subject.bare_metal {
            true => self.kvm.on_its_cpus(|| self.host.boot(subject, loops))?,
            false => self.kvm.boot(subject, loops),
        }
    }

    fn end(&self) -> Result<(), Stop> {
        self.host.end()
    }
}
