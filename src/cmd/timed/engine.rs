//! The engine that a Plan asks for.

use std::collections::BTreeMap;

use super::super::args::HostArgs;
use super::super::drive::image;
use super::super::exit::UsageError;
use super::cpus;
use crate::engine::host::{Host, journal, timed::TimedHost};
use crate::engine::kvm::{Kvm, Setup};
use crate::engine::qemu::Qemu;
use crate::engine::{Booted, Cancel, Stop, Timed, noise};
use crate::model::{Subject, TimedEngine, TimedPlan, TimedSubject, Workload};
use crate::rundir::TimedDir;

/// Makes it ready.
pub fn engine(dir: &TimedDir, args: &HostArgs, cancel: &Cancel) -> anyhow::Result<Box<dyn Timed>> {
    let plan = dir.plan();
    Ok(match plan.engine {
        TimedEngine::Host => Box::new(host(plan, args, cancel)?),
        TimedEngine::Kvm if plan.subjects.base.bare_metal => {
            let (host, kvm) = (host(plan, args, cancel)?, kvm(dir, args, cancel)?);
            Box::new(BareMetal { host, kvm })
        }
        TimedEngine::Kvm => Box::new(kvm(dir, args, cancel)?),
    })
}

/// The running kernel's programs as they are.
pub fn native(args: &HostArgs, cancel: &Cancel) -> anyhow::Result<Host> {
    Ok(Host::new(&args.cache()?, args.limits(), cancel.clone())?)
}

fn host(plan: &TimedPlan, args: &HostArgs, cancel: &Cancel) -> anyhow::Result<TimedHost> {
    let (host, note) = (native(args, cancel)?, |text: &str| note!("ktax: {text}"));
    let sides = [&plan.subjects.base, &plan.subjects.change];
    Ok(TimedHost::new(host, &journal::state_dir(), sides, noise::facts, note)?)
}

fn kvm(dir: &TimedDir, args: &HostArgs, cancel: &Cancel) -> anyhow::Result<Kvm> {
    let plan = dir.plan();
    let cache = args.cache()?;
    let mut images = BTreeMap::new();
    for kernel in [&plan.subjects.base, &plan.subjects.change].into_iter().flat_map(|s| &s.kernel) {
        let planned = plan.kernels.get(kernel).ok_or_else(|| unplanned(kernel))?;
        images.insert(kernel.clone(), image(planned, &Subject::of(kernel, ""), &cache)?);
    }
    let qemu = Qemu::find(args.qemu.as_deref())?;
    let (limits, cancel) = (args.limits(), cancel.clone());
    let (shape, cpus) = (plan.machine.clone(), cpus::of_run(dir)?);
    let machine = noise::facts;
    let setup = Setup { qemu, cache, images, shape, cpus, machine, limits, cancel };
    Kvm::new(setup).map_err(|failure| anyhow::anyhow!("{failure}; {}", failure.next_step()))
}

fn unplanned(kernel: &str) -> UsageError {
    let kernel = kernel.escape_default();
    UsageError::Text(format!("plan.json has no kernel {kernel:?}; plan again with `ktax plan`"))
}

/// A guest beside the machine that it runs on.
struct BareMetal {
    host: TimedHost,
    kvm: Kvm,
}

impl Timed for BareMetal {
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
