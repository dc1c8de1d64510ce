//! What the failure of one Boot spares the others, and the one Boot that is made again.

use std::sync::Mutex;

use crate::rundir::{RunDir, RunDirError};
use ktax_engine::{Cancel, Stop};
use ktax_model::{Failure, Sides, Step};

/// The first Boot of each Side that failed. A row needs all Layouts, so that the other Boots of
/// that Side are of no use; a wrong CPU model or too little memory would fail each of them.
#[derive(Default)]
pub(super) struct FirstFailures(Mutex<Sides<Option<String>>>);

impl FirstFailures {
    /// Those on disk that the next try would repeat.
    pub fn read<M>(dir: &RunDir<M>, steps: &[Step]) -> Result<FirstFailures, RunDirError> {
        let failures = FirstFailures::default();
        for step in steps {
            let failure = dir.boot(step)?.and_then(|boot| boot.failure);
            if failure.is_some_and(|failure| !failure.is_of_the_host()) {
                failures.note(step);
            }
        }
        Ok(failures)
    }

    /// Notes that the Boot of this Step failed.
    pub fn note(&self, step: &Step) {
        let mut sides = self.0.lock().expect("no thread panics with the lock");
        sides.get_mut(step.side).get_or_insert_with(|| step.name());
    }

    /// Why this Step is not booted.
    pub fn spare(&self, step: &Step) -> Option<Failure> {
        let sides = self.0.lock().expect("no thread panics with the lock");
        sides.get(step.side).clone().map(|first| Failure::NotBooted { first })
    }
}

/// Makes a Boot or a Run, and once more if the host lost it, of which `observe` hears first; also
/// returns why it was lost.
pub(super) fn at_most_twice<T>(
    cancel: &Cancel,
    observe: impl Fn(&Failure),
    mut make: impl FnMut() -> Result<T, Stop>,
) -> (Result<T, Stop>, Option<Failure>) {
    match make() {
        Err(Stop::Failed(lost @ Failure::QemuLost { .. }, _)) if !cancel.is_cancelled() => {
            observe(&lost);
            (make(), Some(lost))
        }
        other => (other, None),
    }
}
