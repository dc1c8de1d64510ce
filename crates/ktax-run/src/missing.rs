use serde::de::DeserializeOwned;

use crate::rundir::{RunDir, RunDirError};
use ktax_model::{Boot, Outcome, Step};

/// What is still to run in a Step, as indices into `rows`: what was never made, and what failed
/// for a reason that may have gone away.
pub(super) fn missing<M, S: DeserializeOwned>(
    dir: &RunDir<M>,
    step: &Step,
    rows: &[&str],
) -> Result<Vec<usize>, RunDirError> {
    let boot = dir.boot(step)?;
    if matches!(boot, Some(Boot { failure: Some(failure), .. }) if !failure.is_of_the_host()) {
        return Ok(Vec::new());
    }
    let mut missing = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        match dir.run::<S>(step, row)?.map(|run| run.outcome) {
            Some(Outcome::Measured(_)) => {}
            Some(Outcome::Failed(failure)) if !failure.is_of_the_host() => {}
            _ => missing.push(at),
        }
    }
    Ok(missing)
}
