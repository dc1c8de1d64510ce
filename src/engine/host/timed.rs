//! Boots of the running kernel: a Side's settings, then its loops.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use super::changer::Changer;
use super::error::SettingError;
use super::programs::Host;
use crate::engine::stop::Stop;
use crate::engine::timed::{Booted, Timed};
use crate::model::{Facts, Failure, TimedSubject, Workload};

/// The running kernel with the settings of two Sides.
pub struct TimedHost {
    host: Host,
    changer: RefCell<Changer>,
    facts: fn() -> Facts,
}

impl TimedHost {
    /// Puts back what an earlier ktax has left, and reads what the settings are now. `dir` has the
    /// journal, `facts` reads what the machine says of itself, `note` tells the user something.
    pub fn new(
        host: Host,
        dir: &Path,
        sides: [&TimedSubject; 2],
        facts: fn() -> Facts,
        note: fn(&str),
    ) -> Result<TimedHost, SettingError> {
        let changer = RefCell::new(Changer::new(dir, sides, note)?);
        Ok(TimedHost { host, changer, facts })
    }
}

impl Timed for TimedHost {
    fn boot(&self, subject: &TimedSubject, loops: &[&Workload]) -> Result<Booted, Stop> {
        if self.host.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        self.changer.borrow_mut().apply(subject).map_err(failed)?;
        let facts = (self.facts)();
        let mut wires = Vec::with_capacity(loops.len());
        // A row that hangs takes the limit once, and not once for each loop.
        let mut ended: BTreeMap<&str, Failure> = BTreeMap::new();
        for workload in loops {
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
