//! The timed engine of the running kernel: applies a Side's settings, then runs its loops.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use super::changer::Changer;
use super::error::SettingError;
use super::journal;
use super::programs::Host;
use crate::entry::{OpenError, TimedSetup};
use crate::noise;
use crate::stop::{Stop, host};
use crate::timed::{Booted, Timed};
use ktax_model::{Facts, Failure, TimedSubject, Workload};

/// The running kernel with the settings of two Sides.
pub struct TimedHost<'a> {
    host: Host,
    changer: RefCell<Changer<'a>>,
    facts: fn() -> Facts,
    between: &'a dyn Fn(),
}

impl<'a> TimedHost<'a> {
    /// Of both Sides of a Plan, with the journal of this machine.
    ///
    /// # Errors
    ///
    /// As of [`TimedHost::new`], or the guest program cannot be put into the cache.
    pub fn open(setup: TimedSetup<'a>) -> Result<TimedHost<'a>, OpenError> {
        let TimedSetup { plan, cache, limits, cancel, note, between, native, .. } = setup;
        let programs = Host::new(cache, limits, cancel)
            .map_err(host("cannot put the guest program into the cache"))?
            .with(native);
        let sides = [&plan.subjects.base, &plan.subjects.change];
        let made = TimedHost::new(programs, &journal::state_dir(), sides, noise::facts, note)?;
        Ok(TimedHost { between, ..made })
    }

    /// Restores what an earlier ktax left changed, and reads the present settings. `dir` has the
    /// journal, `facts` reads the facts of the machine, `note` prints a line for the user.
    ///
    /// # Errors
    ///
    /// A setting is wrong, or cannot be changed or restored.
    pub fn new(
        host: Host,
        dir: &Path,
        sides: [&TimedSubject; 2],
        facts: fn() -> Facts,
        note: impl Fn(&str) + 'a,
    ) -> Result<TimedHost<'a>, SettingError> {
        let changer = RefCell::new(Changer::new(dir, sides, note)?);
        Ok(TimedHost { host, changer, facts, between: &|| () })
    }
}

impl Timed for TimedHost<'_> {
    fn boot(&self, subject: &TimedSubject, loops: &[&Workload]) -> Result<Booted, Stop> {
        if self.host.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        self.changer.borrow_mut().apply(subject).map_err(failed)?;
        let facts = (self.facts)();
        let mut wires = Vec::with_capacity(loops.len());
        // A row that hangs waits for the limit once, not once in each loop.
        let mut ended: BTreeMap<&str, Failure> = BTreeMap::new();
        for workload in loops {
            (self.between)();
            if let Some(failure) = ended.get(workload.row.as_str()) {
                wires.push(Err(failure.clone()));
                continue;
            }
            wires.push(match self.host.run(&subject.prefix, workload, false) {
                Ok(wire) => Ok(wire),
                Err(Stop::Failed(failure, _)) => {
                    ended.insert(&workload.row, failure.clone());
                    Err(failure)
                }
                Err(Stop::Cancelled) => return Err(Stop::Cancelled),
            });
        }
        Ok(Booted { facts, wires, console: Vec::new() })
    }

    fn end(&self) -> Result<(), Stop> {
        self.changer.borrow_mut().restore().map_err(failed)
    }
}

fn failed(error: SettingError) -> Stop {
    Failure::Setting { reason: error.to_string() }.into()
}
