//! Measurements of the store as the Runs of a Plan: what is compared was never in a directory.

use crate::analyse::CountsRuns;
use crate::model::{
    Boot, CountsPlan, MeasuredLayout, Measurement, Outcome, Plan, Profile, Run, Sides, Step,
};
use crate::rundir::RunDirError;
use crate::rundir::profile::parse;

/// A Plan, and a measurement of each row for both Sides.
pub(super) struct Taken {
    pub plan: Plan<CountsPlan>,
    /// In the order of the Plan's rows.
    pub rows: Vec<Sides<Measurement>>,
    /// The store's directory.
    pub place: String,
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
