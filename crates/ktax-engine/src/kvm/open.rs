use super::bare_metal::BareMetal;
use super::device;
use super::guest::{Kvm, Setup};
use crate::entry::{OpenError, TimedSetup};
use crate::host::TimedHost;
use crate::noise;
use crate::qemu::Qemu;
use crate::timed::Timed;

/// The engine of a Plan: guests, and this machine beside them where it is a Side.
pub(super) fn open(mut setup: TimedSetup<'_>) -> Result<Box<dyn Timed + '_>, OpenError> {
    device::check(setup.plan.machine.accelerator)?;
    let kvm = Kvm::new(Setup {
        qemu: Qemu::find(setup.qemu)?,
        cache: setup.cache.to_owned(),
        images: std::mem::take(&mut setup.images),
        shape: setup.plan.machine.clone(),
        programs: setup.programs.take(),
        cpus: std::mem::take(&mut setup.cpus),
        machine: noise::facts,
        limits: setup.limits.clone(),
        cancel: setup.cancel.clone(),
    })?;
    Ok(match setup.plan.subjects.base.bare_metal {
        true => Box::new(BareMetal { host: TimedHost::open(setup)?, kvm }),
        false => Box::new(kvm),
    })
}
