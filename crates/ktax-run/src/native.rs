use super::numbers::numbers;
use ktax_engine::Stop;
use ktax_engine::host::Host;
use ktax_engine::wire::{self, Answer, Done, WireError};
use ktax_host::text::{escape, escape_bytes};
use ktax_model::{Failure, NativeRow, NativeSample, Workload};

/// Runs a row `runs` times on the running kernel, each time in a new process. The first failure
/// ends it; `None` where the user cancelled. `observe` is told after each Run.
pub fn run_natively(
    host: &Host,
    workload: &Workload,
    runs: usize,
    counters: bool,
    observe: &dyn Fn(),
) -> Option<NativeRow> {
    let mut row = NativeRow {
        workload: workload.clone(),
        samples: Vec::new(),
        failure: None,
        uncounted: Default::default(),
        cells: Vec::new(),
    };
    for _ in 0..runs {
        match host.run(&[], workload, counters).map(|wire| judge(&wire, workload)) {
            Ok(Ok(done)) => {
                row.uncounted = done.uncounted;
                let (signature, values) = (done.signature, done.values);
                row.samples.push(NativeSample { signature, values });
            }
            Ok(Err(failure)) | Err(Stop::Failed(failure, _)) => {
                row.failure = Some(failure);
                return Some(row);
            }
            Err(Stop::Cancelled) => return None,
        }
        observe();
    }
    Some(row)
}

/// A native program is trusted no more than one in a guest.
pub(super) fn judge(wire: &[u8], workload: &Workload) -> Result<Done, Failure> {
    let mut done = match wire::parse_answer(wire, &workload.program) {
        Ok(Answer::Done(done)) => done,
        Ok(Answer::Refused(message)) => return Err(Failure::Refused { message }),
        Err(WireError::Truncated { .. }) => {
            return Err(Failure::Silent { console: escape_bytes(wire) });
        }
        Err(error) => return Err(Failure::Garbled { reason: error.to_string() }),
    };
    if !workload.numbers.is_empty() {
        let found = numbers(&workload.numbers, &wire::parse_printed(wire));
        let message = |message: String| escape(&message).to_string();
        done.signature.extend(found.map_err(|it| Failure::Refused { message: message(it) })?);
    }
    let deviations = workload.deviations(&done.signature).join("; ");
    if deviations.is_empty() { Ok(done) } else { Err(Failure::WrongWork { deviations }) }
}
