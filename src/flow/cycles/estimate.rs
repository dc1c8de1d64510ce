//! Estimates of results that were counted, by a machine's file.

use std::path::Path;

use super::error::EstimateError;
use crate::analyse;
use crate::flow::error::Error;
use crate::flow::file;
use crate::model::{CalibrationFit, CountsComparison, MachineModel, Model, Saved, SavedResult};
use crate::plan::ModelKey;

/// The machine of a file, with what it takes.
///
/// # Errors
/// It cannot be read, is no machine, or was never calibrated.
pub fn calibrated(path: &Path) -> Result<ModelKey, Error> {
    let machine = file::machine(path)?;
    match machine.calibration() {
        Some(_) => Ok(machine),
        None => Err(EstimateError::NotCalibrated { file: path.display().to_string() }.into()),
    }
}

/// Adds to each comparison what the machine of that file would take.
///
/// # Errors
/// The file is no calibrated machine, or a result does not have what its constants are for.
pub fn estimate(results: &mut [Saved], machine: &Path) -> Result<(), Error> {
    let file = machine.display().to_string();
    let ModelKey::Machine(model, Some(calibration)) = calibrated(machine)? else {
        return Err(EstimateError::NotCalibrated { file }.into());
    };
    for result in results {
        let SavedResult::Comparison(comparison) = &mut result.result else {
            return Err(EstimateError::NotCounted.into());
        };
        let Some(counts) = comparison.counts() else {
            return Err(EstimateError::NotCounted.into());
        };
        if calibration.fit.as_ref().is_some_and(CalibrationFit::needs_model)
            && !is_of(&model, counts)
        {
            return Err(EstimateError::OtherModel { file }.into());
        }
        analyse::estimate(&mut comparison.rows, &model.name, &calibration);
    }
    Ok(())
}

/// Whether the counts have the counters of such a model, whatever its file was called.
fn is_of(model: &MachineModel, counts: &CountsComparison) -> bool {
    let nameless = |machine: &MachineModel| MachineModel {
        name: String::new(),
        title: String::new(),
        sources: Vec::new(),
        ..machine.clone()
    };
    let counted = counts.key.model.as_ref().and_then(Model::machine);
    counted.is_some_and(|counted| nameless(counted) == nameless(model))
}
