//! Workloads of a directory of the user's.

use std::path::Path;

use super::error::Error;
use super::session::Session;
use super::stale::StalePlanError;
use crate::compile::{self, CompileError, WorkloadFiles};
use crate::engine::Cancel;
use crate::engine::payload::UserSpace;
use crate::model::CountsPlan;
use crate::plan::{Definition, PlanError, definition, definitions};
use crate::text::escape_path;

/// What the workload files of a directory define.
///
/// # Errors
/// A file cannot be read, or is wrong.
pub fn definitions_of(directory: &Path) -> Result<Vec<Definition>, Error> {
    definitions_in(&compile::read(directory)?, directory)
}

/// The same, and compiles the C files with ktax's guest as a run does. The program is dropped.
///
/// # Errors
/// Those of [`definitions_of`], a C file that does not compile, and a user who has cancelled.
pub fn checked_definitions(
    directory: &Path,
    cache: &Path,
    cancel: &Cancel,
) -> Result<Vec<Definition>, Error> {
    let files = compile::read(directory)?;
    let definitions = definitions_in(&files, directory)?;
    if !files.c.is_empty() {
        unless_stopped(compile::compile(&files, directory, cache), cancel)?;
    }
    Ok(definitions)
}

/// The compiler's answer, unless the user has stopped it.
fn unless_stopped<T>(compiled: Result<T, CompileError>, cancel: &Cancel) -> Result<T, Error> {
    match cancel.is_cancelled() {
        true => Err(Error::Cancelled),
        false => Ok(compiled?),
    }
}

fn definitions_in(files: &WorkloadFiles, directory: &Path) -> Result<Vec<Definition>, Error> {
    let of_ktax: Vec<String> = definitions()?.into_iter().map(|it| it.program).collect();
    let parsed = files.toml.iter().map(|(path, text)| {
        let path = escape_path(&directory.join(path)).to_string();
        let definition = definition(text, &path)?;
        let is_there = definition.run.is_some()
            || of_ktax.contains(&definition.program)
            || files.c.iter().any(|(_, text)| declares(text, &definition.program));
        if !is_there {
            let program = &definition.program;
            let reason =
                format!("no C file has WORKLOAD(\"{program}\", …); add it, or correct program");
            return Err(PlanError::Definition { path, reason }.into());
        }
        Ok(definition)
    });
    parsed.collect()
}

/// Whether a C file has a workload of that name.
fn declares(text: &str, program: &str) -> bool {
    let mut calls = text.split("WORKLOAD").skip(1).map(str::trim_start);
    let name = format!("\"{program}\"");
    calls.any(|call| call.strip_prefix('(').is_some_and(|it| it.trim_start().starts_with(&name)))
}

/// The guest that has the workloads of a directory, too; it is in the cache from then on.
pub(super) fn guest(directory: Option<&str>, session: &Session<'_>) -> Result<UserSpace, Error> {
    let Some(directory) = directory.map(Path::new) else { return Ok(UserSpace::OWN) };
    let files = compile::read(directory)?;
    // Workload files may have programs of the machine alone.
    if files.c.is_empty() {
        return Ok(UserSpace::OWN);
    }
    session.observer.status("compiling the workloads");
    let program = compile::compile(&files, directory, &session.cache);
    session.observer.status("");
    let guest = UserSpace::compiled(unless_stopped(program, &session.cancel)?);
    guest.keep(&session.cache).map_err(CompileError::Cache)?;
    Ok(guest)
}

/// The guest of a plan: from the cache, or compiled again.
pub(super) fn planned(plan: &CountsPlan, session: &Session<'_>) -> Result<UserSpace, Error> {
    if plan.workloads_from.is_none() {
        return Ok(UserSpace::OWN);
    }
    if let Some(guest) = UserSpace::find(&plan.key.guest, &session.cache) {
        return Ok(guest);
    }
    let guest = guest(plan.workloads_from.as_deref(), session)?;
    match guest.sha256() == plan.key.guest {
        true => Ok(guest),
        false => Err(StalePlanError::OtherWorkloads.into()),
    }
}
