use super::guest::Kvm;
use crate::host::TimedHost;
use crate::stop::Stop;
use crate::timed::{Booted, Timed};
use ktax_model::{TimedSubject, Workload};

/// A guest beside the machine that it runs on.
pub(super) struct BareMetal<'a> {
    pub host: TimedHost<'a>,
    pub kvm: Kvm,
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
