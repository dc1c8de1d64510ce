//! Where the Runs that are compared are.

use ktax_model::{Boot, CountsPlan, Plan, Profile, Run, Step};
use ktax_run::rundir::{RunDir, RunDirError};

/// Whatever has the Runs of a Plan: a run directory, or the store. Each gives the same Comparison.
pub trait CountsRuns {
    /// What was planned.
    fn plan(&self) -> &Plan<CountsPlan>;

    /// Where they are, for messages.
    fn place(&self) -> String;

    /// How a Boot went; `None` if it was not made yet.
    ///
    /// # Errors
    /// It cannot be read.
    fn boot(&self, step: &Step) -> Result<Option<Boot>, RunDirError>;

    /// A Run; `None` if it was not made yet.
    ///
    /// # Errors
    /// It cannot be read.
    fn run(&self, step: &Step, row: &str) -> Result<Option<Run>, RunDirError>;

    /// The counts by function of a Run that has a Sample.
    ///
    /// # Errors
    /// They cannot be read, or do not add up.
    fn profile(&self, step: &Step, row: &str) -> Result<Profile, RunDirError>;
}

impl CountsRuns for RunDir<CountsPlan> {
    fn plan(&self) -> &Plan<CountsPlan> {
        RunDir::plan(self)
    }

    fn place(&self) -> String {
        self.root().display().to_string()
    }

    fn boot(&self, step: &Step) -> Result<Option<Boot>, RunDirError> {
        RunDir::boot(self, step)
    }

    fn run(&self, step: &Step, row: &str) -> Result<Option<Run>, RunDirError> {
        RunDir::run(self, step, row)
    }

    fn profile(&self, step: &Step, row: &str) -> Result<Profile, RunDirError> {
        RunDir::profile(self, step, row)
    }
}
