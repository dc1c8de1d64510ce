//! The files of programs that are found by running each program once on this machine.

use super::context::OrHost;
use super::error::Error;
use super::programs::here;
use super::session::Session;
use crate::engine::host::Host;
use crate::engine::{Limits, Stop};
use crate::model::{NamedFiles, UserProgram};
use crate::plan::{CountsExperiment, Experiment, program_rows};
use crate::program::{self, ProgramError};
use crate::run::named_files;
use crate::text::{escape, shell_line};

/// The experiment, whose programs and hooks have the files that they name: see [`with_files`].
///
/// # Errors
/// A program cannot be run in a sandbox, or does not end as it must.
pub(super) fn experiment(
    experiment: &Experiment<CountsExperiment>,
    session: &Session<'_>,
) -> Result<Experiment<CountsExperiment>, Error> {
    let mut traced = experiment.clone();
    let CountsExperiment { programs, hooks, .. } = &mut traced.method;
    *programs = with_files(programs, session)?;
    if let Some(hooks) = hooks {
        let traced = with_files(std::slice::from_ref(&**hooks), session)?;
        **hooks = traced.into_iter().next().expect("there is one for each");
    }
    Ok(traced)
}

/// The programs, each with the files that it names when it runs once in a sandbox, where that is
/// asked for and not known yet.
///
/// # Errors
/// A program cannot be run in a sandbox, or does not end as it must.
pub(super) fn with_files(
    programs: &[UserProgram],
    session: &Session<'_>,
) -> Result<Vec<UserProgram>, Error> {
    let with_files = |program: &UserProgram| {
        let mut program = program.clone();
        if program.trace_files && program.traced.is_empty() {
            let command = shell_line(program.command.iter().map(String::as_str));
            session.observer.status(&format!("tracing the files of {}", escape(&command)));
            let traced = files_of(&program, session);
            session.observer.status("");
            program.traced = traced?;
        }
        Ok(program)
    };
    programs.iter().map(with_files).collect()
}

fn files_of(program: &UserProgram, session: &Session<'_>) -> Result<Vec<String>, Error> {
    let here = here();
    let started = program::to_trace(program, &here, &session.cache)?;
    let errors = started.directory().join("0/out/stderr");
    // A run names thousands of files.
    let limits = Limits { wire_bytes: session.limits.symbols_bytes, ..session.limits.clone() };
    let host = Host::new(&session.cache, limits, session.cancel.clone());
    let next = "name another directory with --cache DIR";
    let host = host.context("cannot write the guest program to the cache", next)?;
    let host = host.with(Some((started, here.clone())));
    let row = &program_rows(std::slice::from_ref(program))[0];
    let refused = |reason: String| ProgramError::NotTraced {
        command: escape(&program.command[0]).to_string(),
        reason,
    };
    let named = named_files(&host, row).map_err(|stop| match stop {
        Stop::Cancelled => Error::Cancelled,
        Stop::Failed(failure, _) => refused(failure.to_string()).into(),
    })?;
    if named.status != u64::from(program.status) {
        let last_words = program::last_words(&errors);
        let NamedFiles { status, .. } = named;
        let wanted = program.status;
        return Err(refused(format!(
            "its exit status is {status}, expected {wanted}: {last_words}"
        ))
        .into());
    }
    Ok(program::found(&named, &here))
}
