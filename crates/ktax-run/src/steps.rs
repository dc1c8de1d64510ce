//! The Steps of a Plan, several at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::event::Ended;
use super::timing::Timing;
use crate::rundir::RunDirError;
use ktax_engine::Cancel;
use ktax_model::Step;

/// Makes each Step in one of `jobs` threads, until one fails or the user stops it.
pub(super) fn each(
    steps: &[Step],
    jobs: usize,
    cancel: &Cancel,
    make: impl Fn(&Step, &mut Timing) -> Result<(), RunDirError> + Sync,
) -> Result<(Ended, Timing), RunDirError> {
    let next = AtomicUsize::new(0);
    let shared = Mutex::new((Timing::default(), None));
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, steps.len().max(1)) {
            scope.spawn(|| {
                while let Some(step) = steps.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let mut timing = Timing::default();
                    let result = make(step, &mut timing);
                    let mut shared = shared.lock().expect("no thread panics with the lock");
                    shared.0.add(&timing);
                    if let Err(error) = result {
                        shared.1.get_or_insert(error);
                    }
                    if shared.1.is_some() || cancel.is_cancelled() {
                        return;
                    }
                }
            });
        }
    });
    match shared.into_inner().expect("no thread panics with the lock") {
        (_, Some(error)) => Err(error),
        (timing, None) if cancel.is_cancelled() => Ok((Ended::Cancelled, timing)),
        (timing, None) => Ok((Ended::Complete, timing)),
    }
}
