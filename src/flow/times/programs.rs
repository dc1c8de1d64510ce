//! The user's programs: packed for guests, or run where they are.

use std::path::{Path, PathBuf};

use crate::flow::error::Error;
use crate::flow::programs;
use crate::flow::session::Session;
use crate::flow::stale::StalePlanError;
use crate::flow::traced;
use crate::model::{ProgramsHere, RunsOn, TimesPlan};
use crate::program::{self, Contents, NativePrograms, PackedPrograms, ProgramError};
use crate::text::escape_path;

/// Says in a new Plan which files its programs are; it returns those of the running kernel.
pub(super) fn identify(
    plan: &mut TimesPlan,
    session: &Session<'_>,
) -> Result<Option<(NativePrograms, PathBuf)>, Error> {
    if plan.programs.is_empty() {
        return Ok(None);
    }
    plan.programs = traced::with_files(&plan.programs, session)?;
    if let Some(packed) = pack(plan, session)? {
        plan.packed = packed.sha256;
    }
    if !plan.is_here() {
        return Ok(None);
    }
    let here = programs::here();
    let native = program::native(&plan.programs, &here, &session.cache)?;
    let not_utf8 = || ProgramError::NotUtf8 { path: escape_path(&here).to_string() };
    let directory = here.to_str().ok_or_else(not_utf8)?.to_owned();
    plan.programs_here = Some(ProgramsHere { directory, sha256: native.sha256.clone() });
    Ok(Some((native, here)))
}

/// The programs of a Plan's guests: from the cache, or packed again.
pub(super) fn in_guests(
    plan: &TimesPlan,
    session: &Session<'_>,
) -> Result<Option<PackedPrograms>, Error> {
    match plan.packed.is_empty() {
        true => Ok(None),
        false => programs::found(&plan.packed, || pack(plan, session), session).map(Some),
    }
}

/// The programs of a Plan on the running kernel, and where they start.
pub(super) fn here(
    plan: &TimesPlan,
    session: &Session<'_>,
) -> Result<Option<(NativePrograms, PathBuf)>, Error> {
    let Some(ProgramsHere { directory, sha256 }) = &plan.programs_here else { return Ok(None) };
    let native = program::native(&plan.programs, Path::new(directory), &session.cache)?;
    match native.sha256 == *sha256 {
        true => Ok(Some((native, directory.into()))),
        false => Err(StalePlanError::OtherPrograms.into()),
    }
}

fn pack(plan: &TimesPlan, session: &Session<'_>) -> Result<Option<PackedPrograms>, Error> {
    match plan.runs_on {
        RunsOn::RunningKernel => Ok(None),
        RunsOn::Guests => {
            let contents = Contents { programs: plan.programs.clone(), ..Contents::default() };
            programs::pack_together(&contents, plan.machine.memory_mib, session)
        }
    }
}
