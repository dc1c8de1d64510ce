//! The guests of a plan, by row and Layout.

use crate::error::{AnalyseError, Result};
use ktax_model::{
    Boot, Failure, GuestRow, GuestSample, GuestWork, GuestsPlan, Outcome, RowFailure, Side, Sides,
    Step,
};
use ktax_run::rundir::RunDir;

/// All Boots of a finished run directory.
pub(super) struct Boots<'a> {
    dir: &'a RunDir<GuestsPlan>,
    boots: Vec<(&'a Step, Boot)>,
}

/// The Samples of a row by Layout, of each Side; or why some are missing.
pub(super) type Gathered = std::result::Result<Sides<Vec<GuestSample>>, Vec<RowFailure>>;

impl<'a> Boots<'a> {
    /// Reads them, if every one was made.
    pub fn read(dir: &'a RunDir<GuestsPlan>) -> Result<Boots<'a>> {
        let plan = &dir.plan().method;
        let mut boots = Vec::new();
        for step in &plan.steps {
            boots.extend(dir.boot(step)?.map(|boot| (step, boot)));
        }
        if boots.len() < plan.steps.len() {
            return Err(AnalyseError::BootsMissing {
                missing: plan.steps.len() - boots.len(),
                planned: plan.steps.len(),
                dir: dir.root().display().to_string(),
            });
        }
        // A Side without a Boot under some Layout could not be paired.
        boots.sort_by_key(|(step, _)| step.layout);
        let of = |side| boots.iter().filter(move |(step, _)| step.side == side).count();
        let sides = if plan.change.is_some() { &Side::BOTH[..] } else { &Side::BOTH[..1] };
        match sides.iter().all(|side| of(*side) == plan.layouts.len()) && of(Side::Base) > 0 {
            true => Ok(Boots { dir, boots }),
            false => Err(AnalyseError::Plan { reason: "has a layout without a boot".into() }),
        }
    }

    /// Every Boot.
    pub fn made(&self) -> impl Iterator<Item = (&Step, &Boot)> + Clone {
        self.boots.iter().map(|(step, boot)| (*step, boot))
    }

    /// The guests of one row.
    pub fn gather(&self, row: &GuestRow) -> Result<Gathered> {
        let (mut samples, mut failures) = (Sides::<Vec<GuestSample>>::default(), Vec::new());
        for (step, boot) in &self.boots {
            match self.attempt(row, step, boot)? {
                Ok(sample) => samples.get_mut(step.side).push(sample),
                Err(failure) => failures.push(RowFailure {
                    boot: step.name(),
                    side: step.side,
                    boots: 1,
                    failure,
                }),
            }
        }
        failures.sort_by(|a, b| a.boot.cmp(&b.boot));
        Ok(if failures.is_empty() { Ok(samples) } else { Err(failures) })
    }

    fn attempt(
        &self,
        row: &GuestRow,
        step: &Step,
        boot: &Boot,
    ) -> Result<std::result::Result<GuestSample, Failure>> {
        if let Some(failure) = &boot.failure {
            return Ok(Err(failure.clone()));
        }
        let run = self.dir.run::<GuestSample>(step, &row.row)?;
        let run = run.ok_or_else(|| AnalyseError::RunMissing {
            row: row.row.clone(),
            boot: step.name(),
            dir: self.dir.root().display().to_string(),
        })?;
        Ok(match run.outcome {
            Outcome::Measured(sample) => worked(row, sample),
            Outcome::Failed(failure) => Err(failure),
        })
    }
}

/// A program must have done its work.
fn worked(row: &GuestRow, sample: GuestSample) -> std::result::Result<GuestSample, Failure> {
    let deviations = match &row.work {
        GuestWork::Program(workload) => workload.deviations(&sample.signature).join("; "),
        GuestWork::Boot | GuestWork::Raw { .. } => String::new(),
    };
    if deviations.is_empty() { Ok(sample) } else { Err(Failure::WrongWork { deviations }) }
}
