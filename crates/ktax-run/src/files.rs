//! Which files a program names in its system calls: on this machine, and in a guest.

use std::env;

use ktax_engine::host::Host;
use ktax_engine::wire;
use ktax_engine::{Frozen, Stop};
use ktax_model::{Failure, Layout, NamedFiles, Workload};
use ktax_program::missing;

/// The most missing files that a message names.
const MOST_SHOWN: usize = 4;

/// Runs a program once on this machine, in a sandbox, and says which files it names.
///
/// # Errors
/// There can be no sandbox, or a limit was exceeded, or the user cancelled.
pub fn named_files(host: &Host, program: &Workload) -> Result<NamedFiles, Stop> {
    let answer = host.run(&[], &traced(program), false)?;
    files(&answer, program)
}

/// What a program's failure says that also says which files of this machine the guest lacks. The
/// program runs once more in the guest, and its system calls tell.
///
/// # Errors
/// The user cancelled.
pub(super) fn with_missing(
    message: String,
    frozen: &dyn Frozen,
    program: &Workload,
    layout: &Layout,
) -> Result<String, Stop> {
    let answer = frozen.run(&wire::order(&traced(program), layout));
    let named = match answer.and_then(|answer| files(&answer.wire, program)) {
        Ok(named) => named,
        Err(Stop::Cancelled) => return Err(Stop::Cancelled),
        // The program has failed already; why is known, and this would only have said more.
        Err(Stop::Failed(..)) => return Ok(message),
    };
    let here = env::current_dir().unwrap_or_default();
    Ok(message + &lacked(&missing(&named, &here)))
}

fn lacked(missing: &[String]) -> String {
    let shown = missing.iter().take(MOST_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    let next = "add --trace-files, or --file for each";
    match missing.len() {
        0 => String::new(),
        1 => format!("; the guest lacks {shown}, which is on this machine: {next}"),
        all if all <= MOST_SHOWN => {
            format!("; the guest lacks {shown}, which are on this machine: {next}")
        }
        all => {
            let more = all - MOST_SHOWN;
            format!("; the guest lacks {shown} and {more} more, which are on this machine: {next}")
        }
    }
}

/// The order that traces the files of a program.
fn traced(program: &Workload) -> Workload {
    let mut traced = program.clone();
    traced.params.insert("trace".to_owned(), NamedFiles::TRACED);
    traced
}

/// What such an order's answer says.
fn files(answer: &[u8], program: &Workload) -> Result<NamedFiles, Stop> {
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
        assert_eq!(lacked(&[]), "");
        assert!(lacked(&names(1)).starts_with("; the guest lacks /0, which is on this machine: "));
        assert!(lacked(&names(4)).starts_with("; the guest lacks /0, /1, /2, /3, which are"));
        assert!(
            lacked(&names(9)).contains("/3 and 5 more, which are on this machine: add --trace")
        );
    }
}
