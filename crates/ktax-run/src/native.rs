//! Programs on the running kernel: their rows, and the files that they name.

use std::env;

use crate::printed::printed_numbers;
use ktax_engine::host::Host;
use ktax_engine::wire::{Answer, Done};
use ktax_engine::{Frozen, Stop, wire};
use ktax_host::text::{escape, escape_bytes};
use ktax_model::{ErrorKind, Failure, Layout, NamedFiles, NativeRow, NativeSample, Workload};
use ktax_program::missing;

/// Runs a row `runs` times on the running kernel, each time in a new process. The first failure
/// ends it; `None` if the user cancelled. `observe` is called after each Run.
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
        match host.run(&[], workload, counters).map(|wire| judge_answer(&wire, workload)) {
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

/// Judges the answer of a native program, which is trusted no more than one in a guest.
pub(super) fn judge_answer(wire: &[u8], workload: &Workload) -> Result<Done, Failure> {
    let mut done = match wire::parse_answer(wire, &workload.program) {
        Ok(Answer::Done(done)) => done,
        Ok(Answer::Refused(message)) => return Err(Failure::Refused { message }),
        Err(error) if error.kind == ErrorKind::Truncated => {
            return Err(Failure::Silent { console: escape_bytes(wire) });
        }
        Err(error) => return Err(Failure::Garbled { reason: error.to_string() }),
    };
    if !workload.numbers.is_empty() {
        let found = printed_numbers(&workload.numbers, &wire::parse_printed(wire));
        let message = |message: String| escape(&message).to_string();
        done.signature
            .extend(found.map_err(|reason| Failure::Refused { message: message(reason) })?);
    }
    let deviations = workload.deviations(&done.signature).join("; ");
    if deviations.is_empty() { Ok(done) } else { Err(Failure::WrongWork { deviations }) }
}

/// Most missing files that a message names.
const MOST_SHOWN: usize = 4;

/// Runs a program once on this machine, in a sandbox, and returns the files that it names.
pub fn named_files(host: &Host, program: &Workload) -> Result<NamedFiles, Stop> {
    let answer = host.run(&[], &traced_workload(program), false)?;
    parse_files(&answer, program)
}

/// Adds to the message of a failed program the files of this machine that the guest lacks. The
/// program runs once more in the guest with its system calls traced.
pub(super) fn with_missing(
    message: String,
    frozen: &dyn Frozen,
    program: &Workload,
    layout: &Layout,
) -> Result<String, Stop> {
    let answer = frozen.run(&wire::order(&traced_workload(program), layout));
    let named = match answer.and_then(|answer| parse_files(&answer.wire, program)) {
        Ok(named) => named,
        Err(Stop::Cancelled) => return Err(Stop::Cancelled),
        // The program's failure is known already; the missing files would only have been added to
        // it.
        Err(Stop::Failed(..)) => return Ok(message),
    };
    let here = env::current_dir().unwrap_or_default();
    Ok(message + &missing_files_text(&missing(&named, &here)))
}

fn missing_files_text(missing: &[String]) -> String {
    let shown = missing.iter().take(MOST_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    let next = "add --trace-files, or --file for each";
    match missing.len() {
        0 => String::new(),
        1 => format!("; the guest lacks {shown}, which is on this machine: {next}"),
        count if count <= MOST_SHOWN => {
            format!("; the guest lacks {shown}, which are on this machine: {next}")
        }
        count => {
            let more = count - MOST_SHOWN;
            format!("; the guest lacks {shown} and {more} more, which are on this machine: {next}")
        }
    }
}

/// The program's workload with a parameter that traces its files.
fn traced_workload(program: &Workload) -> Workload {
    let mut traced = program.clone();
    traced.params.insert("trace".to_owned(), NamedFiles::TRACED);
    traced
}

/// Parses the answer to an order that traces files.
fn parse_files(answer: &[u8], program: &Workload) -> Result<NamedFiles, Stop> {
    match wire::parse_files(answer, &program.program) {
        Ok(Ok(files)) => Ok(files),
        Ok(Err(message)) => Err(Failure::Program { message }.into()),
        Err(error) => Err(Failure::Garbled { reason: error.to_string() }.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_missing_files_are_named_and_the_rest_is_counted() {
        let names = |count: usize| (0..count).map(|i| format!("/{i}")).collect::<Vec<_>>();
        assert_eq!(missing_files_text(&[]), "");
        assert!(
            missing_files_text(&names(1))
                .starts_with("; the guest lacks /0, which is on this machine: ")
        );
        assert!(
            missing_files_text(&names(4))
                .starts_with("; the guest lacks /0, /1, /2, /3, which are")
        );
        assert!(
            missing_files_text(&names(9))
                .contains("/3 and 5 more, which are on this machine: add --trace")
        );
    }
}
