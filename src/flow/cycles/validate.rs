//! An experiment that is counted and timed: is what was estimated what was measured?

use std::path::{Path, PathBuf};

use super::error::EstimateError;
use super::estimate::estimate;
use crate::analyse;
use crate::engine::ENGINES;
use crate::flow::error::Error;
use crate::flow::file;
use crate::flow::kept::{VALIDATION, keep};
use crate::flow::phases::plan;
use crate::flow::saved::saved;
use crate::flow::session::Session;
use crate::flow::whole::compare;
use crate::model::{Comparison, Saved, SavedResult, Validation};
use crate::plan::{Experiment, ExperimentFile, ModelKey};

/// The engine that boots both kernels and times them.
const TIMED: &str = "kvm";

/// Joins counts and times that were made; a machine adds the estimates, which counts that were made
/// with one have.
///
/// # Errors
/// One of both is none, or no row is in both.
pub fn validate_results(
    counted: &Path,
    timed: &Path,
    machine: Option<&Path>,
) -> Result<Validation, Error> {
    let mut counted = saved(&[counted.to_owned()])?;
    if let Some(machine) = machine {
        estimate(&mut counted, machine)?;
    }
    let counted = only(counted, |it| it.counts().is_some())?;
    let timed = only(saved(&[timed.to_owned()])?, |it| it.times().is_some())?;
    Ok(analyse::validate(&counted, &timed)?)
}

fn only(results: Vec<Saved>, is_wanted: fn(&Comparison) -> bool) -> Result<Comparison, Error> {
    let found = results.into_iter().find_map(|one| match one.result {
        SavedResult::Comparison(comparison) if is_wanted(&comparison) => Some(*comparison),
        _ => None,
    });
    found.ok_or_else(|| EstimateError::NotBoth.into())
}

/// Counts an experiment with a machine's model, times it, and joins both; `None` where the user
/// stopped it, and the same call goes on.
///
/// # Errors
/// A Kernel cannot be had, the machine has no fit, or something on the host failed.
pub fn validate(
    file: &ExperimentFile,
    machine: &Path,
    out: &Path,
    session: &Session<'_>,
) -> Result<Option<Validation>, Error> {
    let key = file::machine(machine)?;
    if key.calibration().is_none_or(|it| it.fit.is_none()) {
        return Err(EstimateError::NotFitted { file: machine.display().to_string() }.into());
    }
    let both = [counted(file, key), timed(file)];
    let [counted, timed] = both.map(|it| Experiment::of(&it));
    let (counted, timed) = (plan(&counted?, session)?, plan(&timed?, session)?);
    let dirs: [PathBuf; 2] = ["counted", "timed"].map(|name| out.join(name));
    let Some(counted) = compare(&dirs[0], counted, session)? else { return Ok(None) };
    let Some(timed) = compare(&dirs[1], timed, session)? else { return Ok(None) };
    let validation = analyse::validate(&counted, &timed)?;
    keep(out, VALIDATION, &validation)?;
    Ok(Some(validation))
}

/// What only times have goes.
fn counted(file: &ExperimentFile, machine: ModelKey) -> ExperimentFile {
    let mut file = file.clone();
    (file.engine, file.threshold_percent) = (None, None);
    (file.pairs, file.most_pairs, file.loops, file.allow_differences) = (None, None, None, None);
    (file.machine.cores, file.machine.accelerator) = (None, None);
    file.secondary.clear();
    file.machine.model = Some(machine);
    file
}

/// What only counts have goes.
fn timed(file: &ExperimentFile) -> ExperimentFile {
    let mut file = file.clone();
    file.engine = ENGINES.iter().find(|engine| engine.name == TIMED);
    (file.layouts, file.machine.model, file.machine.cpu) = (None, None, None);
    file.threshold_percent = None;
    file
}
