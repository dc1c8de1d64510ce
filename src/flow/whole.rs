use std::path::Path;

use super::error::Error;
use super::options::Options;
use super::phases::{analyse, run};
use super::session::Session;
use super::stale::StalePlanError;
use super::store::keep_result;
use crate::model::{Comparison, Plan};
use crate::run::Ended;
use crate::rundir::{AnyRunDir, RunDirError};

/// Runs and analyses a Plan in a directory, which is made, or resumed if it has the same Plan;
/// `None` where the user stopped it.
///
/// # Errors
/// The directory has another Plan, or something on the host failed.
pub fn compare(
    path: &Path,
    plan: Plan,
    session: &Session<'_>,
) -> Result<Option<Comparison>, Error> {
    carry_out(&directory(path, plan)?, Options::default(), session)
}

/// The same, with the base of the run directory `first`, where that has the same one.
///
/// # Errors
/// As [`compare`].
pub fn compare_with_base_of(
    first: &Path,
    path: &Path,
    plan: Plan,
    session: &Session<'_>,
) -> Result<Option<Comparison>, Error> {
    let dir = directory(path, plan)?;
    {
        let _lock = dir.lock()?;
        dir.adopt_base(&AnyRunDir::open(first)?)?;
    }
    carry_out(&dir, Options::default(), session)
}

/// Runs and analyses the Plan of a directory, and keeps the result; `None` where the user stopped
/// it.
///
/// # Errors
/// The directory is in use, or something on the host failed.
pub fn measure(
    dir: &AnyRunDir,
    options: Options,
    session: &Session<'_>,
) -> Result<Option<Comparison>, Error> {
    let comparison = carry_out(dir, options, session)?;
    if let Some(comparison) = &comparison {
        keep_result(comparison, session);
    }
    Ok(comparison)
}

/// Analyses a Plan that was carried out, and keeps the result.
///
/// # Errors
/// A Boot or Run is missing, or a file is not of ktax's.
pub fn result(
    dir: &AnyRunDir,
    options: Options,
    session: &Session<'_>,
) -> Result<Comparison, Error> {
    let comparison = analyse(dir, options)?;
    keep_result(&comparison, session);
    Ok(comparison)
}

fn carry_out(
    dir: &AnyRunDir,
    options: Options,
    session: &Session<'_>,
) -> Result<Option<Comparison>, Error> {
    let _lock = dir.lock()?;
    match run(dir, options, session)? {
        Ended::Cancelled => Ok(None),
        Ended::Complete => analyse(dir, Options::default()).map(Some),
    }
}

fn directory(path: &Path, plan: Plan) -> Result<AnyRunDir, Error> {
    match AnyRunDir::open(path) {
        Ok(dir) if dir.plan() == plan => Ok(dir),
        Ok(_) => Err(StalePlanError::OtherPlan { path: path.display().to_string() }.into()),
        Err(RunDirError::NoPlan { .. } | RunDirError::Absent { .. }) => {
            Ok(AnyRunDir::create(path, plan)?)
        }
        Err(error) => Err(error.into()),
    }
}
