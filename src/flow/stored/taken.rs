//! Measurements of the store as the Runs of a Plan: what is compared was never in a directory.

use super::error::StoredError;
use crate::analyse::{self, CountsRuns};
use crate::flow::error::Error;
use crate::model::{
    Boot, Comparison, CountsPlan, FORMAT, MeasuredLayout, Measurement, Outcome, Plan, Profile, Run,
    Sides, Step,
};
use crate::plan;
use crate::rundir::RunDirError;
use crate::rundir::profile::parse;
use crate::store::Store;

/// Compares rows of two Subjects that were measured in the same way.
///
/// # Errors
/// There is none, or a profile is damaged.
pub(in crate::flow) fn compare(
    rows: Vec<Sides<Measurement>>,
    threshold_percent: f64,
    store: &Store,
) -> Result<Comparison, Error> {
    let first = rows.first().ok_or(StoredError::Empty)?;
    let Measurement { of, guest, seed, .. } = &first.base;
    let count = u32::try_from(of.layouts.len()).unwrap_or(u32::MAX);
    let method = CountsPlan {
        key: of.key.clone(),
        machine: of.machine.clone(),
        subjects: Sides::of(|side| first.get(side).subject.clone()),
        kernels: Sides::of(|side| first.get(side).kernel.clone()),
        archives: None,
        calibration: None,
        disk: guest.disk.clone(),
        programs: guest.programs.clone(),
        hooks: guest.hooks.clone(),
        workloads_from: guest.workloads_from.clone(),
        workloads: rows.iter().map(|row| row.base.of.workload.clone()).collect(),
        layouts: of.layouts.clone(),
        steps: plan::steps_of(*seed, count),
    };
    let title = plan::title_of(&first.base.subject, &first.change.subject);
    let (format, seed) = (FORMAT, *seed);
    let plan = Plan { format, title, seed, threshold_percent, method };
    let place = store.root().display().to_string();
    Ok(analyse::counts(&Taken { plan, rows, place })?)
}

/// A Plan, and a measurement of each row for both Sides.
struct Taken {
    plan: Plan<CountsPlan>,
    /// In the order of the Plan's rows.
    rows: Vec<Sides<Measurement>>,
    /// The store's directory.
    place: String,
}

impl Taken {
    fn layout(&self, step: &Step, row: &str) -> Option<&MeasuredLayout> {
        let is_row = |it: &&Sides<Measurement>| it.base.of.workload.row == row;
        self.rows.iter().find(is_row)?.get(step.side).layouts.get(step.layout)
    }
}

impl CountsRuns for Taken {
    fn plan(&self) -> &Plan<CountsPlan> {
        &self.plan
    }

    fn place(&self) -> String {
        self.place.clone()
    }

    fn boot(&self, step: &Step) -> Result<Option<Boot>, RunDirError> {
        let of_row = |row: &Sides<Measurement>| {
            Some(row.get(step.side).layouts.get(step.layout)?.boot.clone())
        };
        Ok(self.rows.first().and_then(of_row))
    }

    fn run(&self, step: &Step, row: &str) -> Result<Option<Run>, RunDirError> {
        let outcome = self.layout(step, row).map(|it| Outcome::Measured(it.sample.clone()));
        Ok(outcome.map(|outcome| Run { row: row.to_owned(), outcome }))
    }

    fn profile(&self, step: &Step, row: &str) -> Result<Profile, RunDirError> {
        let text = self.layout(step, row).map_or("", |layout| &layout.profile);
        let damaged = |reason| RunDirError::Damaged { path: self.place.clone(), reason };
        parse(text).map(|parsed| parsed.profile).map_err(|error| damaged(error.to_string()))
    }
}
